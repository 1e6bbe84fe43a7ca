package ipset

import (
	"errors"
	"fmt"

	linux "github.com/vishvananda/netlink/nl"
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

// Refusal is an error of the kernel with its reason in words. errors.Is matches it with the errno that
// comes closest: EBUSY, EEXIST, EINVAL, ENOENT or ENOSPC.
type Refusal struct {
	Code   unix.Errno // from the kernel; codes above 4096 are ipset's own
	Reason string
	Errno  unix.Errno
}

func (r *Refusal) Error() string { return r.Reason }
func (r *Refusal) Unwrap() error { return r.Errno }

const (
	errPrivate  = linux.IPSET_ERR_PRIVATE // larger codes are ipset's own
	errFindType = linux.IPSET_ERR_FIND_TYPE
	errSpecific = linux.IPSET_ERR_TYPE_SPECIFIC // from here on the meaning depends on the set type
)

// refusals has the errors that our ops can meet: those of enum ipset_errno in
// linux/netfilter/ipset/ip_set.h and of ip_set_hash.h.
var refusals = map[unix.Errno]Refusal{
	unix.ENOENT: {Reason: "the set does not exist", Errno: unix.ENOENT},
	unix.EEXIST: {Reason: "a set of this name exists already", Errno: unix.EEXIST},

	linux.IPSET_ERR_PROTOCOL: {Reason: "ipset does not accept this for a set of its type (IPSET_ERR_PROTOCOL)",
		Errno: unix.EINVAL},
	errFindType: {Reason: "the kernel has no such set type (IPSET_ERR_FIND_TYPE)",
		Errno: unix.EOPNOTSUPP},
	linux.IPSET_ERR_MAX_SETS: {Reason: "the kernel's number of sets is used up (IPSET_ERR_MAX_SETS, parameter " +
		"max_sets of module ip_set)", Errno: unix.ENOSPC},
	linux.IPSET_ERR_BUSY: {Reason: "the set is in use by iptables rules (IPSET_ERR_BUSY)", Errno: unix.EBUSY},
	linux.IPSET_ERR_EXIST_SETNAME2: {Reason: "the second set does not exist (IPSET_ERR_EXIST_SETNAME2)",
		Errno: unix.ENOENT},
	linux.IPSET_ERR_TYPE_MISMATCH: {Reason: "the sets are of different types (IPSET_ERR_TYPE_MISMATCH)",
		Errno: unix.EINVAL},
	linux.IPSET_ERR_EXIST: {Reason: "the entry is there already, or is not (IPSET_ERR_EXIST)",
		Errno: unix.EEXIST},
	linux.IPSET_ERR_INVALID_CIDR: {Reason: "the set cannot hold a prefix of this length (IPSET_ERR_INVALID_CIDR)",
		Errno: unix.EINVAL},
	linux.IPSET_ERR_INVALID_FAMILY: {Reason: "the set type has no such family (IPSET_ERR_INVALID_FAMILY)",
		Errno: unix.EINVAL},
	linux.IPSET_ERR_REFERENCED: {Reason: "the set is a member of a list of sets (IPSET_ERR_REFERENCED)",
		Errno: unix.EBUSY},
	linux.IPSET_ERR_IPADDR_IPV4: {Reason: "the set holds IPv4 addresses (IPSET_ERR_IPADDR_IPV4)", Errno: unix.EINVAL},
	linux.IPSET_ERR_IPADDR_IPV6: {Reason: "the set holds IPv6 addresses (IPSET_ERR_IPADDR_IPV6)", Errno: unix.EINVAL},
	errSpecific:                 {Reason: "the set is full (IPSET_ERR_HASH_FULL)", Errno: unix.ENOSPC},
	errSpecific + 2: {Reason: "the set type has no such protocol (IPSET_ERR_INVALID_PROTO)",
		Errno: unix.EINVAL},
	errSpecific + 3: {Reason: "the entry lacks its protocol (IPSET_ERR_MISSING_PROTO)", Errno: unix.EINVAL},
}

// reason returns the error of an op in words.
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
	case !known && k.Errno > errPrivate:
		r = Refusal{Reason: fmt.Sprintf("ipset error %d", int(k.Errno)), Errno: unix.EINVAL}
	case !known:
		return k
	}
	r.Code = k.Errno
	return &r
}

// aboutEntry reports whether the kernel rejected an entry that no set of the type can hold. Other
// errors concern the set or memory.
func aboutEntry(err error) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Code > errPrivate && r.Errno == unix.EINVAL
}
