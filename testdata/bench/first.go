package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

const firstRow = "start to first served service"

// first measures a start until the first service is served. Its VIP is the first address that is bound, and by then its
// virtual and real servers exist.
func (b *bench) first(p *pass) error {
	proxy, ready, done, err := p.prepare(b.binary)
	if err != nil {
		return err
	}
	defer done()
	if err := proxy.Serve(text(table(p.size, p.family))); err != nil {
		return err
	}
	// The channel has room for the addresses of the largest table, since only the first is received.
	bound, end := make(chan netlink.AddrUpdate, 1<<17), make(chan struct{})
	defer close(end)
	if err := netlink.AddrSubscribe(bound, end); err != nil {
		return fmt.Errorf("following addresses: %w", err)
	}
	err = p.lap(firstRow, func() error {
		if err := proxy.Start(); err != nil {
			return err
		}
		return untilBound(bound, proxy)
	})
	if err == nil {
		err = ready.wait()
	}
	if err != nil {
		return fmt.Errorf("%w; its log:\n%s", err, proxy.Log.String())
	}
	return errors.Join(proxy.Stop(), cleanup(proxy))
}

// untilBound waits for an address that is not one of a link by itself.
func untilBound(bound <-chan netlink.AddrUpdate, proxy *lab.Proxy) error {
	limit := time.After(10 * time.Minute)
	for {
		select {
		case a := <-bound:
			if a.NewAddr && a.LinkAddress.IP.IsGlobalUnicast() {
				return nil
			}
		case <-proxy.Ended():
			return errors.New("svcproxy has ended")
		case <-limit:
			return errors.New("no VIP was bound")
		}
	}
}
