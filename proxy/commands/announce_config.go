package commands

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/packaging/docs"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/daemon"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// engineNames are the words that --engine takes.
func engineNames() string {
	var names []string
	for _, e := range docs.Engines() {
		names = append(names, string(e))
	}
	return strings.Join(names, ", ")
}

// config prints the example of a routing daemon with this node's values.
func (c *announceCommand) config(ctx context.Context) error {
	s, err := c.load()
	if err != nil {
		return err
	}
	e := engineFor(docs.Engine(c.engine), s.Config.Announce.Mode)
	if !slices.Contains(docs.Engines(), e) {
		return cli.Errorf(cli.Usage, "", "--engine wants one of %s, have %q", engineNames(), c.engine)
	}
	c.warn(unfit(e, s.Config.Announce)...)
	vips, err := c.vips(ctx, &s, e)
	if err != nil {
		return err
	}
	if len(vips) == 0 && e != docs.BIRD {
		return cli.Errorf(cli.Config, "write services.toml first; /usr/share/doc/svcproxy/examples has the example",
			"no service has a VIP to announce, and %s would get that of an example", e)
	}
	a := s.Config.Announce
	text, err := docs.Example(e, docs.ExampleValues{Table: a.RouteTable(), DrainMetric: uint32(a.DrainMetric),
		File: a.File, VIPs: vips})
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(c.Out, text)
	return err
}

// engineFor returns the routing daemon that is asked for, or else one that fits the mode.
func engineFor(asked docs.Engine, m announce.Mode) docs.Engine {
	switch {
	case asked != "":
		return asked
	case m == announce.VRRP:
		return docs.Keepalived
	}
	return docs.BIRD
}

// modeOf returns the announce.mode that a routing daemon needs.
func modeOf(e docs.Engine) announce.Mode {
	if e == docs.Keepalived {
		return announce.VRRP
	}
	return announce.Routes
}

// unfit says which keys of svcproxy.toml must be others for a routing daemon.
func unfit(e docs.Engine, a config.Announce) (lines []string) {
	want := modeOf(e)
	if a.Mode != want {
		lines = append(lines, fmt.Sprintf("announce.mode is %q: %s needs %q", a.Mode, e, want))
	}
	switch {
	case e == docs.FRR && a.Table != 0:
		lines = append(lines, fmt.Sprintf("announce.table is %d: frr needs 0 here, since it imports other tables for IPv4 "+
			"only", a.Table))
	case e == docs.BIRD && a.Table == 0:
		lines = append(lines, "announce.table is 0: bird would announce all routes of the main table; give it a table of "+
			"its own, like 143")
	}
	return lines
}

// vips returns the VIPs that routing daemons may be told of in the mode of theirs, sorted.
func (c *announceCommand) vips(ctx context.Context, s *daemon.Setup, e docs.Engine) (vips []netip.Addr, err error) {
	s.Config.Announce.Mode = modeOf(e)
	o := offline{local: c.local}
	table, err := o.table(ctx, s, new(kernel.Observed))
	if err != nil {
		return nil, err
	}
	for _, x := range s.Fronts(table, kernel.Node{}).Fronts {
		if x.Traits.Has(frontend.Announced) {
			vips = append(vips, x.Key.Addr)
		}
	}
	return slices.Compact(vips), nil // fronts are sorted by address
}
