package main

import (
	"errors"
	"net/netip"
	"os"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// outageServices is how many services meet each outage. Every service has its own
// ports, so its checks have a phase of their own, and an outage gives as many
// samples.
const outageServices = 4

// A site is a lab in which one backend of three is going to fail.
type site struct {
	lab   *lab.Lab
	fault fault
	webs  []*webBackend
	vips  []netip.AddrPort
	dir   string
	stop  func()
}

func newSite(f fault) (*site, error) {
	l, err := lab.New()
	if err != nil {
		return nil, err
	}
	s := &site{lab: l, fault: f}
	if s.dir, err = os.MkdirTemp("", "bench-outage-"); err != nil {
		return s, err
	}
	var ports []int
	for i := range outageServices {
		s.vips = append(s.vips, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 0, byte(1 + i)}), 80))
		ports = append(ports, 9001+i)
	}
	for _, b := range l.Backends {
		s.webs = append(s.webs, &webBackend{host: b, ports: ports})
	}
	for _, w := range s.webs {
		err = errors.Join(err, w.listen())
	}
	return s, errors.Join(err, l.Node.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }))
}

func (s *site) close() {
	if s.stop != nil {
		s.stop()
	}
	for _, w := range s.webs {
		w.close()
	}
	s.lab.Close()
	os.RemoveAll(s.dir)
}
