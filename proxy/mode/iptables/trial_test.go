package iptables

import (
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// A plan has to tell from rules whether they were written without an extra, also if no service has affinity.
func TestExtraIsAbsent(t *testing.T) {
	table, node := modetest.Big(2, 2), kernel.Node{}
	c := mode.Config{Names: kernel.DefaultNames, MasqueradeBit: 14}
	f := frontend.List(table, node, c.Frontends)
	extras := new(Mode).Extras(c.Names)
	for i, extra := range extras {
		without := c
		extra.Without(&without)
		if without.Same(c) {
			t.Errorf("extra %d: the configuration is the same without it", i)
		}
		for name, state := range map[string]kernel.State{"none": {}, "with it": State(f, c), "of mode ipvs": ipvs.State(f, c)} {
			if extra.Absent(&state) {
				t.Errorf("extra %d, rules %s: absent", i, name)
			}
		}
		state := State(f, without)
		for k := range extras {
			if got := extras[k].Absent(&state); got != (k == i) {
				t.Errorf("rules without extra %d: extra %d is absent: %t", i, k, got)
			}
		}
	}
}

// One rule with a match that the kernel lacks would stop all changes of table nat.
func TestWithoutRecent(t *testing.T) {
	table, c := modetest.Big(2, 2), modetest.Defaults()
	for i := range table.Services.Len() {
		table.Services.At(i).Affinity = sources.AffinityClientIP
	}
	uses := func(c mode.Config) bool {
		return strings.Contains(State(frontend.List(table, kernel.Node{}, c.Frontends), c).String(), "-m recent ")
	}
	for _, c.EndpointChains = range []bool{false, true} {
		with, without := c, c
		without.NoAffinity = true
		if !uses(with) || uses(without) {
			t.Errorf("endpoint chains %t: the match is used %t, and without it %t", c.EndpointChains, uses(with), uses(without))
		}
	}
}
