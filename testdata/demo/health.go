package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

const checkedPort = 8090

const checked = `
[services.checked]
clusterIP = "10.96.0.31"
ports = [{ port = 80, targetPort = 8090 }]
endpoints = ["10.2.1.10", "10.2.2.10", "10.2.3.10"]
healthCheck = "tcp"
`

var checkedVIP = netip.MustParseAddrPort("10.96.0.31:80")

// die has one of three backends stop listening, and later listen again.
func (d *demo) die() (string, error) {
	var ports []*lab.Port
	for _, b := range d.Backends {
		p, err := b.OpenPort(checkedPort, b.Web(200, 0))
		if err != nil {
			return "", err
		}
		ports = append(ports, p)
	}
	d.say("added to services.toml:")
	d.show(strings.Split(strings.TrimSpace(checked), "\n")...)
	if err := d.proxy.Serve(web + shop + checked); err != nil {
		return "", err
	}
	if err := d.allUp("checked"); err != nil {
		return "", err
	}

	const dead = "10.2.1.10"
	died := time.Now()
	if err := inOrder(ports[0].Close, func() error { return d.weighs(checkedVIP, dead, "0") }); err != nil {
		return "", err
	}
	took := time.Since(died)
	if took > 4*time.Second {
		return "", fmt.Errorf("it took %v", took)
	}
	status, _, err := d.proxy.Command("status", "checked")
	if err != nil {
		return "", err
	}
	d.say("%s no longer listens; svcproxy status checked, %s later:", dead, ms(took))
	d.show(strings.Split(status, "\n")...)
	const clients = 100
	refused, err := d.newClients(checkedVIP, clients, d.Backends[0].Name)
	if err != nil {
		return "", err
	}

	lives := time.Now()
	if err := inOrder(ports[0].Open, func() error { return d.weighs(checkedVIP, dead, "1") }); err != nil {
		return "", err
	}
	d.say("%d new connections, %d refused; it listens again, and serves after %s", clients, refused, ms(time.Since(lives)))
	if refused > 0 {
		return "", fmt.Errorf("%d of %d new clients were refused", refused, clients)
	}
	return fmt.Sprintf("out after %s; %d of %d refused; back after %s", ms(took), refused, clients, ms(time.Since(lives))),
		errors.Join(d.proxy.Serve(web+shop), d.gone(checkedVIP))
}

// allUp waits until the first probe of each backend was good.
func (d *demo) allUp(service string) error {
	return lab.Eventually(patience, func() error {
		out, _, err := d.proxy.Command("status", service)
		if err == nil && strings.Count(out, "  up ") < len(d.Backends) {
			err = fmt.Errorf("not all backends of %s are up: %s", service, out)
		}
		return err
	})
}

// newClients asks on so many new connections, none of which may be with one backend,
// and counts those that fail.
func (d *demo) newClients(vip netip.AddrPort, count int, never string) (failed int, err error) {
	client := d.Client.HTTP(lab.AskLimit)
	for range count {
		a, err := lab.Get(client, vip)
		if err != nil {
			failed++
		} else if a.Backend == never {
			return failed, fmt.Errorf("a new connection is with %s", never)
		}
	}
	return failed, nil
}
