package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// The rows of a start, and of one soon after the table was removed: then the kernel's trash has all its real servers, and is
// searched for each that is added.
const (
	firstRow     = "start to first served service"
	firstBackRow = "put back, to first served service"
	lastBackRow  = "put back, to last real server"
)

// first measures a start until the first service is served.
func (b *bench) first(p *pass) error {
	proxy, ready, done, err := p.prepare(b.binary)
	if err != nil {
		return err
	}
	defer done()
	t := table(p.size, p.family)
	if err := proxy.Serve(text(t)); err != nil {
		return err
	}
	_, err = p.first(firstRow, proxy, ready, t)
	if err := errors.Join(err, proxy.Stop(), cleanup(proxy)); err != nil || p.size.services > largestPutBack {
		return err
	}
	took, err := p.first(firstBackRow, proxy, ready, t)
	p.took(lastBackRow, took)
	return errors.Join(err, proxy.Stop(), cleanup(proxy))
}

// With more services the kernel takes minutes to put them back.
const largestPutBack = 5000

// first starts the program and waits until all is served. The row ends with the first VIP that the kernel makes local: by then its virtual and
// real servers exist.
func (p *pass) first(row string, proxy *lab.Proxy, ready readiness, t sources.Table) (all time.Duration, err error) {
	// An address makes a route in table local, so routes tell of both. The buffer holds what comes while this program does
	// not run.
	local, end := make(chan netlink.RouteUpdate, 1), make(chan struct{})
	err = netlink.RouteSubscribeWithOptions(local, end, netlink.RouteSubscribeOptions{ReceiveBufferSize: 64 << 20, ReceiveBufferForceSize: true})
	if err != nil {
		return 0, fmt.Errorf("following routes: %w", err)
	}
	defer func() {
		close(end)
		for range local { // what was not received
		}
	}()
	start := time.Now()
	err = p.lap(row, func() error {
		if err := proxy.Start(); err != nil {
			return err
		}
		return untilLocal(t, local, proxy)
	})
	if err == nil {
		err = ready.wait()
	}
	if err != nil {
		err = fmt.Errorf("%w; its log:\n%s", err, proxy.Log.String())
	}
	return time.Since(start), err
}

// untilLocal waits until one of the table's VIPs is local.
func untilLocal(t sources.Table, local <-chan netlink.RouteUpdate, proxy *lab.Proxy) error {
	vips := map[netip.Addr]bool{}
	for i := range t.Services.Len() {
		for _, a := range t.Services.At(i).ClusterIPs {
			vips[a] = true
		}
	}
	limit := time.After(10 * time.Minute)
	for {
		select {
		case r, ok := <-local:
			if !ok {
				return errors.New("the kernel's messages about routes ended")
			}
			if r.Type != unix.RTM_NEWROUTE || r.Table != unix.RT_TABLE_LOCAL || r.Dst == nil {
				continue
			}
			if a, ok := netip.AddrFromSlice(r.Dst.IP); ok && vips[a.Unmap()] {
				return nil
			}
		case <-proxy.Ended():
			return errors.New("svcproxy has ended")
		case <-limit:
			return errors.New("no VIP became local")
		}
	}
}
