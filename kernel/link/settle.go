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

// How long the kernel may take to make the local routes of new IPv6 addresses,
// and how often it is asked. It mostly takes less than a millisecond.
const (
	settleLimit = 2 * time.Second
	settlePause = time.Millisecond
)

// settle waits until a VIP that changes from route to address no longer needs
// its route, and fails if it still does. The kernel answers that an IPv6 address
// was added before it has made its local route, which is work of its own
// (addrconf_dad_work of net/ipv6/addrconf.c): with neither route, packets for the
// VIP would leave the node again. One wait serves all addresses of a run.
func (a *applying) settle(vip netip.Addr) error {
	op, added := a.added[vip]
	if !added {
		return nil
	}
	a.send()
	if a.errs[op] != nil {
		return fmt.Errorf("%s is needed, since its address failed: %w", vip, a.errs[op])
	}
	for deadline := time.Now().Add(settleLimit); !a.settled[vip]; time.Sleep(settlePause) {
		if time.Now().After(deadline) {
			return errors.New("the address that takes its place is not yet local")
		}
		if err := a.readSettled(); err != nil {
			return err
		}
	}
	return nil
}

// readSettled reads which IPv6 addresses have local routes that the kernel made.
func (a *applying) readSettled() error {
	defer a.batch.Reset()
	a.settled = make(map[netip.Addr]bool)
	return a.dump("routes of addresses", func(b *nl.Batch) {
		b.Begin(unix.RTM_GETROUTE, 0)
		b.Raw([]byte{unix.AF_INET6, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_KERNEL, 0, unix.RTN_LOCAL, 0, 0, 0, 0})
	}, func() { clear(a.settled) }, func(p []byte) error {
		vip, ok, err := decodeKernelRoute(p)
		if ok {
			a.settled[vip] = true
		}
		return err
	})
}

// decodeKernelRoute reads the local route of an IPv6 address; anything else is
// not ok.
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
