package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A healthChecker is a program that takes backends out of service, with its settings.
type healthChecker struct {
	by      string
	settled time.Duration // from the start, until every endpoint was probed at its usual pace
	start   func(*bench, *site) (stop func(), err error)
}

// The checkers that are compared. Keepalived's checks have neither a faster interval
// while a state is undecided nor a number of good results before a return: its
// settings for svcproxy's defaults are as close as they get.
var (
	svcproxyChecks   = healthChecker{"svcproxy", 5 * time.Second, startSvcproxy}
	keepalivedChecks = healthChecker{"keepalived", 65 * time.Second, func(_ *bench, s *site) (func(), error) {
		return startKeepalived(s, "", "")
	}}
	keepalivedAlike = healthChecker{"keepalived, set alike", 5 * time.Second, func(_ *bench, s *site) (func(), error) {
		return startKeepalived(s, "  delay_loop 2\n", "connect_timeout 2\n retry 2\n delay_before_retry 0.5\n")
	}}
)

func startSvcproxy(b *bench, s *site) (stop func(), err error) {
	check := "tcp"
	if s.fault.web {
		check = "http:/"
	}
	var services strings.Builder
	for i, vip := range s.vips {
		fmt.Fprintf(&services, "[services.s%d]\nclusterIP = %q\nports = [{ port = %d, targetPort = %d }]\nhealthCheck = %q\nendpoints = [", i, vip.Addr(), vip.Port(), s.webs[0].ports[i], check)
		for _, w := range s.webs {
			fmt.Fprintf(&services, "%q, ", w.host.V4)
		}
		services.WriteString("]\n")
	}
	proxy, err := lab.NewProxy(s.lab.Node, b.binary, s.dir, "")
	if err == nil {
		err = errors.Join(proxy.Serve(services.String()), proxy.Start())
	}
	if err != nil {
		return nil, err
	}
	_, err = proxy.Wait(0, lab.Synced)
	return proxy.Kill, err
}

// startKeepalived starts it with these settings of each virtual server, and of each
// check.
func startKeepalived(s *site, server, check string) (stop func(), err error) {
	kind, request := "TCP_CHECK", ""
	if s.fault.web {
		kind, request = "HTTP_GET", "url {\n path /\n status_code 200\n }\n"
	}
	var conf strings.Builder
	for i, vip := range s.vips {
		fmt.Fprintf(&conf, "virtual_server %s %d {\n  lvs_sched rr\n  lvs_method NAT\n  protocol TCP\n%s", vip.Addr(), vip.Port(), server)
		for _, w := range s.webs {
			fmt.Fprintf(&conf, "  real_server %s %d {\n%s {\n%s%s}\n  }\n", w.host.V4, w.ports[i], kind, request, check)
		}
		conf.WriteString("}\n")
	}
	// The node takes packets to VIPs, which svcproxy does by itself.
	if err := s.lab.Node.IP("route add local 10.96.0.0/16 dev lo"); err != nil {
		return nil, err
	}
	k := &keepalived{dir: s.dir}
	if err := errors.Join(k.configure(conf.String()), k.start(s.lab.Node)); err != nil {
		return nil, err
	}
	return k.stop, nil
}
