package main

import (
	"fmt"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// tools does the same work with the kernel's own tools, each run once with all
// input on standard input. This is the best that a shell script can do.
func (b *bench) tools(p *pass) error {
	g, err := p.lay()
	if err != nil {
		return err
	}
	defer g.close()
	input := map[string]*strings.Builder{"ipvs": {}, "ipset": {}, "vips": {}}
	for _, o := range g.plan.Ops {
		if text := input[partOf(o)]; text != nil {
			fmt.Fprintln(text, strings.TrimPrefix(o.String(), "+ "))
		}
	}
	load := map[string][]string{"ipset": {"ipset", "restore"}, "ipvs": {"ipvsadm", "-R"}, "vips": {"ip", "-batch", "-"}}
	list := map[string][]string{"ipset": {"ipset", "save"}, "ipvs": {"ipvsadm", "-Sn"}, "vips": {"ip", "-o", "addr"}}
	if p.size.services > routedAbove {
		list["vips"] = []string{"ip", familyFlag(p.family), "route", "show", "table", "local"}
	}
	order := []string{"ipset", "ipvs", "vips"}
	first := len(p.samples)
	for _, part := range order {
		cmd := load[part]
		if err := p.lap("load "+part, func() error {
			_, err := p.node.Feed(input[part].String(), cmd[0], cmd[1:]...)
			return err
		}); err != nil {
			return err
		}
	}
	p.samples = append(p.samples, p.total(p.samples[first:]))
	for _, part := range order {
		cmd := list[part]
		if err := p.lap("read "+part, func() error {
			out, err := p.node.Run(cmd[0], cmd[1:]...)
			if err == nil && strings.Count(out, "\n") < p.size.services {
				err = fmt.Errorf("%s lists %d lines", cmd[0], strings.Count(out, "\n"))
			}
			return err
		}); err != nil {
			return err
		}
	}
	return g.clean()
}

// routedAbove is the number of VIPs above which vipBinding = "auto" makes routes.
const routedAbove = 1000

func familyFlag(f kernel.Family) string {
	if f == kernel.IPv6 {
		return "-6"
	}
	return "-4"
}
