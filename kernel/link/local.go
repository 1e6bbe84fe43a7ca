package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Limits for waiting until the kernel has made the local routes of new IPv6 addresses. It mostly
// takes less than a millisecond.
const (
	localLimit = 2 * time.Second
	localPause = time.Millisecond
)

// waitLocal waits until a VIP that changes from route to address no longer needs its route. It fails
// if the route is still needed after localLimit.
//
// The kernel acknowledges a new IPv6 address before it makes its local route, in a work queue
// (addrconf_dad_work of net/ipv6/addrconf.c). If neither route existed, packets for the VIP would
// leave the node. One wait serves all addresses of a call of Apply.
func (a *applying) waitLocal(vip netip.Addr) error {
	op, added := a.added[vip]
	if !added {
		return nil
	}
	a.send()
	if a.errs[op] != nil {
		return fmt.Errorf("the route of %s stays, because its address failed: %w", vip, a.errs[op])
	}
	for deadline := time.Now().Add(localLimit); !a.local[vip]; time.Sleep(localPause) {
		late := time.Now().After(deadline) // before the reading, which a busy machine may delay
		if err := a.readLocal(); err != nil {
			return err
		}
		if late && !a.local[vip] {
			return errors.New("the address that replaces it is not local yet")
		}
	}
	return nil
}

// readLocal reads which IPv6 addresses have local routes that the kernel made.
func (a *applying) readLocal() error {
	defer a.batch.Reset()
	a.local = make(map[netip.Addr]bool)
	return a.dump("routes of addresses", func(b *nl.Batch) {
		b.Begin(unix.RTM_GETROUTE, 0)
		b.Raw([]byte{unix.AF_INET6, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_KERNEL, 0, unix.RTN_LOCAL, 0, 0, 0, 0})
	}, func() { clear(a.local) }, func(p []byte) error {
		vip, ok, err := decodeKernelRoute(p)
		if ok {
			a.local[vip] = true
		}
		return err
	})
}

// decodeKernelRoute decodes the local route of an IPv6 address. ok is false for any other route.
func decodeKernelRoute(p []byte) (vip netip.Addr, ok bool, err error) {
	if len(p) < unix.SizeofRtMsg {
		return netip.Addr{}, false, fmt.Errorf("route message of %d bytes", len(p))
	}
	if p[0] != unix.AF_INET6 || p[1] != 128 || p[4] != unix.RT_TABLE_LOCAL || p[5] != unix.RTPROT_KERNEL ||
		p[7] != unix.RTN_LOCAL || binary.NativeEndian.Uint32(p[8:])&unix.RTM_F_CLONED != 0 {
		return netip.Addr{}, false, nil
	}
	attrs := nl.ParseAttrs(p[unix.SizeofRtMsg:])
	for attrs.Next() && err == nil {
		if attrs.Type() == unix.RTA_DST {
			vip, err = ip(kernel.IPv6, attrs.Bytes())
		}
	}
	if err == nil {
		err = attrs.Err()
	}
	return vip, err == nil && vip.IsValid(), err
}
