package ipvs

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
	"testing"

	moby "github.com/moby/ipvs"

	"github.com/svcproxy/svcproxy/kernel"
)

// Another implementation reads what we wrote, and we read the same.
func TestKernelSeenByMoby(t *testing.T) {
	table := open(t)
	virtuals, reals := mixed()
	apply(t, table, additions(virtuals, reals)...)

	h, err := moby.New("")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	services, err := h.GetServices()
	if err != nil {
		t.Fatal(err)
	}
	var gotVirtuals []kernel.Virtual
	var gotReals []kernel.Real
	for _, s := range services {
		v := fromMoby(s)
		gotVirtuals = append(gotVirtuals, v)
		dests, err := h.GetDestinations(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range dests {
			ip, _ := netip.AddrFromSlice(d.Address)
			gotReals = append(gotReals, kernel.Real{
				Key:     kernel.RealKey{Virtual: v.Key, Addr: netip.AddrPortFrom(ip.Unmap(), d.Port)},
				Weight:  uint32(d.Weight),
				Forward: kernel.Forward(d.ConnectionFlags & moby.ConnectionFlagFwdMask),
			})
		}
	}
	slices.SortFunc(gotVirtuals, func(a, b kernel.Virtual) int { return a.Key.Compare(b.Key) })
	slices.SortFunc(gotReals, func(a, b kernel.Real) int { return a.Key.Compare(b.Key) })
	equal(t, "virtuals by moby/ipvs", gotVirtuals, virtuals)
	equal(t, "reals by moby/ipvs", gotReals, reals)
}

func fromMoby(s *moby.Service) kernel.Virtual {
	ip, _ := netip.AddrFromSlice(s.Address)
	v := kernel.Virtual{
		Key:       kernel.VirtualKey{Addr: ip.Unmap(), Port: s.Port, Proto: kernel.Proto(s.Protocol)},
		Scheduler: s.SchedName,
		Flags:     s.Flags &^ flagHashed,
		Timeout:   s.Timeout,
		Netmask:   uint8(s.Netmask),
	}
	if v.Key.Family() == kernel.IPv4 {
		// moby/ipvs returns the mask as a number in the machine's byte order.
		raw := binary.NativeEndian.AppendUint32(nil, s.Netmask)
		v.Netmask = uint8(bits.OnesCount32(binary.BigEndian.Uint32(raw)))
	}
	return v
}

// Package kernel imports only the standard library, so it has its own numbers. They equal the
// library's.
func TestForwardNumbers(t *testing.T) {
	for ours, library := range map[kernel.Forward]uint32{
		kernel.Masquerade: moby.ConnectionFlagMasq, kernel.LocalNode: moby.ConnectionFlagLocalNode,
		kernel.Tunnel: moby.ConnectionFlagTunnel, kernel.Direct: moby.ConnectionFlagDirectRoute,
	} {
		if uint32(ours) != library {
			t.Errorf("forwarding method %d, moby/ipvs has %d", ours, library)
		}
	}
}
