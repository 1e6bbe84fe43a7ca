package ipset

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

func missing(what, module string) error {
	return &kernel.MissingError{
		What: fmt.Sprintf("this kernel has no %s (module %s)", what, module),
		Hint: "modprobe " + module,
	}
}

// Refusal is the kernel's no, in words. errors.Is sees through it to the errno
// that comes closest: EBUSY, EEXIST, EINVAL, ENOENT, ENOSPC.
type Refusal struct {
	Code   unix.Errno // as the kernel gave it: from 4096 on ipset's own
	Reason string
	Errno  unix.Errno
}

func (r *Refusal) Error() string { return r.Reason }
func (r *Refusal) Unwrap() error { return r.Errno }

// firstPrivate is IPSET_ERR_PRIVATE: codes above it are ipset's own.
const firstPrivate = 4096

const (
	errFindType = 4098
	errSpecific = 4352 // IPSET_ERR_TYPE_SPECIFIC: what it means depends on the type
)

// refusals are the errors of enum ipset_errno in linux/netfilter/ipset/ip_set.h
// and of ip_set_hash.h that our ops can meet.
var refusals = map[unix.Errno]Refusal{
	unix.ENOENT: {Reason: "the set does not exist", Errno: unix.ENOENT},
	unix.EEXIST: {Reason: "a set of this name exists already", Errno: unix.EEXIST},

	4097:        {Reason: "ipset does not accept this for a set of its type (IPSET_ERR_PROTOCOL)", Errno: unix.EINVAL},
	errFindType: {Reason: "the kernel has no such set type (IPSET_ERR_FIND_TYPE)", Errno: unix.EOPNOTSUPP},
	4099:        {Reason: "the kernel's number of sets is used up (IPSET_ERR_MAX_SETS, parameter max_sets of module ip_set)", Errno: unix.ENOSPC},
	4100:        {Reason: "the set is in use by iptables rules (IPSET_ERR_BUSY)", Errno: unix.EBUSY},
	4101:        {Reason: "the second set does not exist (IPSET_ERR_EXIST_SETNAME2)", Errno: unix.ENOENT},
	4102:        {Reason: "the sets are of different types (IPSET_ERR_TYPE_MISMATCH)", Errno: unix.EINVAL},
	4103:        {Reason: "the entry is there already, or is not (IPSET_ERR_EXIST)", Errno: unix.EEXIST},
	4104:        {Reason: "the set cannot hold a prefix of this length (IPSET_ERR_INVALID_CIDR)", Errno: unix.EINVAL},
	4106:        {Reason: "the set type has no such family (IPSET_ERR_INVALID_FAMILY)", Errno: unix.EINVAL},
	4108:        {Reason: "the set is a member of a list of sets (IPSET_ERR_REFERENCED)", Errno: unix.EBUSY},
	4109:        {Reason: "the set holds IPv4 addresses (IPSET_ERR_IPADDR_IPV4)", Errno: unix.EINVAL},
	4110:        {Reason: "the set holds IPv6 addresses (IPSET_ERR_IPADDR_IPV6)", Errno: unix.EINVAL},
	errSpecific: {Reason: "the set is full (IPSET_ERR_HASH_FULL)", Errno: unix.ENOSPC},
	4354:        {Reason: "the set type has no such protocol (IPSET_ERR_INVALID_PROTO)", Errno: unix.EINVAL},
	4355:        {Reason: "the entry lacks its protocol (IPSET_ERR_MISSING_PROTO)", Errno: unix.EINVAL},
}

// reason puts what became of an op in words.
func reason(op kernel.Op, err error) error {
	var k *nl.KernelError
	if !errors.As(err, &k) {
		if errors.Is(err, nl.ErrUnknown) {
			return fmt.Errorf("%w: %w", kernel.ErrUnknownOutcome, err)
		}
		return err
	}
	r, known := refusals[k.Errno]
	e, entry := op.Object.(kernel.Entry)
	switch {
	case k.Errno == errSpecific && entry && !e.Addr.IsValid():
		r = Refusal{Reason: "the port is outside the set's range (IPSET_ERR_BITMAP_RANGE)", Errno: unix.ERANGE}
	case !known && k.Errno > firstPrivate:
		r = Refusal{Reason: fmt.Sprintf("ipset error %d", int(k.Errno)), Errno: unix.EINVAL}
	case !known:
		return k
	}
	r.Code = k.Errno
	return &r
}

// aboutEntry says whether the kernel found fault with an entry itself, which no
// set of that type can hold, rather than with the set or with memory.
func aboutEntry(err error) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Code > firstPrivate && r.Errno == unix.EINVAL
}
