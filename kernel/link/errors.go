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

// ForeignError reports a device with our name and another kind. It is not ours, so nothing on it is
// changed.
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
	return fmt.Sprintf("%s is %s, not a %s device: not touched; choose another deviceName, or remove it", e.Device, kind,
		e.want)
}

// Unwrap returns EOPNOTSUPP, the error for changing the kind of a device.
func (e *ForeignError) Unwrap() error { return unix.EOPNOTSUPP }

// ForeignNeighborError reports a proxy neighbour that another program made for the same address and
// link. It is not changed.
type ForeignNeighborError struct{ Neighbor kernel.Neighbor }

func (e *ForeignNeighborError) Error() string {
	return fmt.Sprintf("%s has a proxy neighbour on %s that another program made: not touched", e.Neighbor.Addr,
		e.Neighbor.Link)
}

// Unwrap returns EEXIST.
func (e *ForeignNeighborError) Unwrap() error { return unix.EEXIST }

// reason returns the error of an op in words.
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
	case kernel.Announcement:
		if op.Verb == kernel.Add && k.Errno == unix.EEXIST {
			return fmt.Errorf("another program has a route to %s with metric %d in table %d: not touched; choose another "+
				"announce.table or metric: %w", o.Addr, o.Metric, o.Table, k)
		}
		return ipv6(o.Addr, "lo", k)
	case kernel.Neighbor:
		return ipv6(o.Addr, o.Link, k)
	}
	return k
}

// ipv6 reports whether an error means that the node, or one of its devices, has no IPv6.
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
