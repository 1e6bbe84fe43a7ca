package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

const hashed = `
[services.hashed]
clusterIP = "10.96.0.30"
scheduler = "mh"
ports = [{ port = 80, targetPort = 8080 }]
endpoints = ["10.2.1.10", "10.2.2.10", "10.2.3.10"]
`

var hashedVIP = netip.MustParseAddrPort("10.96.0.30:80")

// drainHashed removes a backend that has a connection, of a service with a hash
// scheduler: it drains, and a hash scheduler goes on finding it.
func (d *demo) drainHashed() (string, error) {
	if err := d.proxy.Serve(web + shop + hashed); err != nil {
		return "", err
	}
	if _, err := d.answered(hashedVIP); err != nil {
		return "", err
	}
	kept, err := d.browseOn(slices.Repeat([]netip.AddrPort{hashedVIP}, 20)...)
	if err != nil {
		return "", err
	}
	const gone = "10.2.1.10"
	err = inOrder(
		func() error { return kept.more(20) },
		func() error { return d.proxy.Serve(web + shop + strings.Replace(hashed, `"`+gone+`", `, "", 1)) },
		func() error { return d.weighs(hashedVIP, gone, "0") },
	)
	var refused int
	const clients = 100
	for range clients {
		if _, err := lab.Get(d.Client.HTTP(lab.AskLimit), hashedVIP); err != nil {
			refused++
		}
	}
	count, failed := kept.stop()
	d.say("%s was removed from a service with scheduler mh and drains; %d new connections, %d refused; %d requests on the open ones",
		gone, clients, refused, count)
	if err == nil && failed == nil && refused > 0 {
		err = fmt.Errorf("%d of %d new clients were refused", refused, clients)
	}
	if err == nil {
		err = failed
	}
	return fmt.Sprintf("%d of %d refused", refused, clients), err
}

// weighs waits until a real server has a weight.
func (d *demo) weighs(vip netip.AddrPort, real, weight string) error {
	return lab.Eventually(patience, func() error {
		lines, err := d.Node.Virtuals()
		if err != nil {
			return err
		}
		for _, l := range lines {
			if strings.Contains(l, "-a -t "+vip.String()+" -r "+real+":") && strings.HasSuffix(l, "-w "+weight) {
				return nil
			}
		}
		return fmt.Errorf("%s has not weight %s: %q", real, weight, lines)
	})
}

// forget empties the ownership set while svcproxy is stopped.
func (d *demo) forget() (string, error) {
	d.proxy.Kill()
	if _, err := d.Node.Run("ipset", "flush", "KUBE-VIRTUAL-SERVER"); err != nil {
		return "", err
	}
	d.say("svcproxy is killed, its ipset KUBE-VIRTUAL-SERVER emptied, and the endpoints of a service replaced")
	mark := d.proxy.Log.Len()
	moved := strings.Replace(shop, `["10.2.1.10", "10.2.2.10"]`, `["10.2.3.10"]`, 1)
	err := inOrder(
		func() error { return d.proxy.Serve(web + moved) },
		func() error { return d.proxy.Start() },
		func() error { return d.gone(hashedVIP) },
		func() error {
			return lab.Eventually(patience, func() error {
				a, err := d.answered(shopVIP)
				if err == nil && a.Backend != d.Backends[2].Name {
					err = fmt.Errorf("%s still answers", a.Backend)
				}
				return err
			})
		},
	)
	if err != nil {
		return "", err
	}
	if strings.Contains(d.proxy.Log.String()[mark:], "not taken over") {
		return "", fmt.Errorf("svcproxy takes its own virtual servers for foreign ones")
	}
	d.say("the record on disk says whose they are: the new endpoint answers, the service that is gone is gone")
	return "no conflict, the new endpoint answers", d.proxy.Serve(web + shop)
}
