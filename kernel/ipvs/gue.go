package ipvs

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// ErrTunnel is the error for a type of tunnel that the kernel does not have.
var ErrTunnel error = &kernel.MissingError{
	What: "this kernel's IPVS has no GUE, which came with Linux 5.3, and would use IPIP",
	Hint: `set forward = "ipip", or run a newer kernel`,
}

// gue is what is known of the kernel's GUE.
type gue uint8

const (
	gueUnknown gue = iota
	gueThere
	gueMissing
)

// tunnels rejects a real server by GUE if the kernel would wrap its packets otherwise. Kernels before
// 5.3 ignore the attributes and use IPIP. Distributions port features back, so an older release is
// tried out, once.
func (t *Table) tunnels(r kernel.Real) error {
	if r.Forward != kernel.Tunnel || r.Tunnel == kernel.IPIP {
		return nil
	}
	if t.gue == gueUnknown {
		old, err := before(5, 3)
		if err == nil && old {
			err = t.tryGUE()
		} else {
			t.gue = gueThere
		}
		if err != nil {
			return fmt.Errorf("asking for GUE: %w", err)
		}
	}
	if t.gue == gueMissing {
		return ErrTunnel
	}
	return nil
}

// before reports whether the running kernel is older than a release.
func before(major, minor int) (bool, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return false, err
	}
	var r kernel.Release
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &r.Major, &r.Minor); err != nil {
		return false, err
	}
	return r.Before(major, minor), nil
}

// tryGUE makes a real server by GUE of a virtual server that no node serves, and reads it back.
func (t *Table) tryGUE() error {
	if err := t.lookup(); err != nil {
		return err
	}
	v := kernel.Virtual{Key: probe, Scheduler: "rr", Netmask: 128}
	r := kernel.Real{Key: kernel.RealKey{Virtual: probe, Addr: netip.MustParseAddrPort("[100::2]:1")},
		Forward: kernel.Tunnel, Tunnel: kernel.GUE, TunnelPort: 1}
	var b nl.Batch
	putVirtual(&b, t.family, cmdNewService, v)
	putReal(&b, t.family, cmdNewDest, &r)
	err := t.conn.Send(&b)
	if err == nil {
		var all []dest
		if all, err = t.dumpDests(probe); err == nil {
			t.gue = gueMissing
			if len(all) == 1 && all[0].Tunnel == kernel.GUE {
				t.gue = gueThere
			}
		}
	}
	return errors.Join(err, t.unprobe("rr"))
}
