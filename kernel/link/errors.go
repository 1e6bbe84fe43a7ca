package link

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

var (
	errNoDummy = &kernel.MissingError{
		What: "this kernel has no dummy devices (module dummy)",
		Hint: "modprobe dummy",
	}
	errNoIPv6 = &kernel.MissingError{
		What: "this kernel runs without IPv6",
		Hint: "boot without ipv6.disable=1, or serve no IPv6 addresses",
	}
)

// ForeignError says that the device of our name is not of the kind that we
// make, and so not ours. Nothing on it is changed.
type ForeignError struct {
	Device string
	Kind   string // as `ip -d link` says it, "" for hardware
	want   string
}

func (e *ForeignError) Error() string {
	kind := "hardware"
	if e.Kind != "" {
		kind = "a " + e.Kind + " device"
	}
	return fmt.Sprintf("%s is %s, not a %s device: not touched; choose another deviceName, or remove it", e.Device, kind, e.want)
}

// Unwrap gives EOPNOTSUPP, as for a device whose kind cannot be changed.
func (e *ForeignError) Unwrap() error { return unix.EOPNOTSUPP }

// ForeignNeighborError says that somebody else made a proxy neighbour for the
// same address and link. It is left as it is.
type ForeignNeighborError struct{ Neighbor kernel.Neighbor }

func (e *ForeignNeighborError) Error() string {
	return fmt.Sprintf("%s has a proxy neighbour on %s that somebody else made: not touched", e.Neighbor.Addr, e.Neighbor.Link)
}

// Unwrap gives EEXIST.
func (e *ForeignNeighborError) Unwrap() error { return unix.EEXIST }

// reason puts what became of an op in words.
func reason(op kernel.Op, err error) error {
	var k *nl.KernelError
	if !errors.As(err, &k) {
		if errors.Is(err, nl.ErrUnknown) {
			return fmt.Errorf("%w: %w", kernel.ErrUnknownOutcome, err)
		}
		return err
	}
	switch o := op.Object.(type) {
	case kernel.Link:
		if op.Verb == kernel.Add && k.Errno == unix.EOPNOTSUPP && o.Type == dummy {
			return errNoDummy
		}
	case kernel.Addr:
		return ipv6(o.Addr, o.Link, k)
	case kernel.Route:
		return ipv6(o.Addr, "lo", k)
	case kernel.Neighbor:
		return ipv6(o.Addr, o.Link, k)
	}
	return k
}

// ipv6 says if a refusal means that the node, or one of its devices, is without
// IPv6.
func ipv6(a netip.Addr, device string, k *nl.KernelError) error {
	switch {
	case a.Is4():
	case k.Errno == unix.EOPNOTSUPP || k.Errno == unix.EAFNOSUPPORT:
		return errNoIPv6
	case k.Errno == unix.EACCES:
		return fmt.Errorf("IPv6 is switched off on %s (sysctl net.ipv6.conf.%s.disable_ipv6): %w", device, device, k)
	}
	return k
}
