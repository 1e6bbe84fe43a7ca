package link

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// The life of our device and the look-up of single links go through vishvananda/netlink. There are
// a handful of these calls in the life of a process. Addresses, routes and dumps go through package
// nl in batches.

// rtnl returns the netlink handle and opens it at the first call. The package-level functions of
// netlink open a socket for each call.
func (l *Links) rtnl() (*netlink.Handle, error) {
	if l.handle != nil {
		return l.handle, nil
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening rtnetlink: %w", err)
	}
	if err := h.SetSocketTimeout(nl.Timeout); err != nil {
		h.Close()
		return nil, fmt.Errorf("setting up rtnetlink: %w", err)
	}
	l.handle = h
	return h, nil
}

// putLink first sends the batch, because addresses in it need the device as it is now.
func (a *applying) putLink(i int, verb kernel.Verb, k kernel.Link) error {
	a.send()
	h, err := a.rtnl()
	if err != nil {
		return err
	}
	switch verb {
	case kernel.Remove:
		var index int
		if index, err = a.index(k.Name); err != nil {
			return err
		}
		err = h.LinkDel(generic(k.Type, index, k.Name))
	case kernel.Add:
		d := generic(k.Type, 0, k.Name)
		if err = h.LinkAdd(d); err == nil {
			a.changed.Add(1)
			err = h.LinkSetAlias(d, alias(k.Name))
		}
	default:
		was, _ := a.ops[i].Was.(kernel.Link)
		if was.Type != k.Type {
			return &ForeignError{Device: k.Name, Kind: was.Type, want: k.Type}
		}
		var index int
		if index, err = a.index(was.Name); err != nil {
			return err
		}
		err = h.LinkSetName(generic(k.Type, index, was.Name), k.Name)
	}
	a.changed.Add(1)
	a.forget()
	if err != nil {
		return reason(a.ops[i], a.refusal(err))
	}
	return nil
}

// alias is the sign of a device of ours, whatever it is named now: "svcproxy kube-ipvs0". In mode
// userspace, where there are no sets, it is the only one in the kernel.
func alias(name string) string { return "svcproxy " + name }

// generic describes a device to netlink; index 0 if it does not exist yet.
func generic(kind string, index int, name string) *netlink.GenericLink {
	attrs := netlink.NewLinkAttrs()
	attrs.Index, attrs.Name = index, name
	return &netlink.GenericLink{LinkAttrs: attrs, LinkType: kind}
}

// lookup asks the kernel for the device with this name.
func (l *Links) lookup(name string) (device, error) {
	h, err := l.rtnl()
	if err != nil {
		return device{}, err
	}
	l.looked.Add(1)
	return l.found(h.LinkByName(name))
}

// lookupIndex asks the kernel for the device with this index.
func (l *Links) lookupIndex(index int) (device, error) {
	h, err := l.rtnl()
	if err != nil {
		return device{}, err
	}
	l.looked.Add(1)
	return l.found(h.LinkByIndex(index))
}

func (l *Links) found(link netlink.Link, err error) (device, error) {
	if err != nil {
		return device{}, l.refusal(err)
	}
	d := device{index: link.Attrs().Index, name: link.Attrs().Name}
	if _, hardware := link.(*netlink.Device); !hardware {
		d.kind = link.Type()
	}
	return d, nil
}

// refusal gives an error of netlink the form that errors of package nl have. If the answer was lost,
// it closes the handle, so that the next call opens another one.
func (l *Links) refusal(err error) error {
	var errno unix.Errno
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return &nl.KernelError{Errno: unix.ENODEV}
	case errors.Is(err, unix.EAGAIN): // the receive timeout
		err = nl.ErrTimeout
	case errors.Is(err, unix.ENOBUFS):
	case errors.As(err, &errno):
		return &nl.KernelError{Errno: errno}
	}
	l.handle.Close()
	l.handle = nil
	return fmt.Errorf("%w: %w", nl.ErrUnknown, err)
}

// probeName is the name of the device that Available asks for in vain.
const probeName = "svcproxy-probe"

// Available reports whether this kernel has dummy devices, and makes it load their module. If it
// has none, the error is a *kernel.MissingError.
//
// No device is created. Available asks for a device with a multicast hardware address, which only
// the driver itself rejects, with EADDRNOTAVAIL (drivers/net/dummy.c, dummy_validate).
func (l *Links) Available() error {
	h, err := l.rtnl()
	if err != nil {
		return err
	}
	probe := generic(l.kind, 0, probeName)
	probe.HardwareAddr = []byte{1, 0, 0, 0, 0, 0}
	err = h.LinkAdd(probe)
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return nil
	case errors.Is(err, unix.EOPNOTSUPP):
		return errNoDummy
	case err == nil:
		err = errors.Join(errors.New("the kernel accepted a hardware address that no device can have"), h.LinkDel(probe))
	}
	return fmt.Errorf("asking the kernel for %s devices: %w", l.kind, err)
}
