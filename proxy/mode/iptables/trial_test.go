package iptables

import (
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/proxy/mode/modetest"
)

// A plan has to tell from rules whether they were written without xt_bpf.
func TestExtraIsAbsent(t *testing.T) {
	table, node := modetest.Big(2, 2), kernel.Node{}
	c := mode.Config{Names: kernel.DefaultNames, MasqueradeBit: 14}
	f := frontend.List(table, node, c.Frontends)
	extra := new(Mode).Extras(c.Names)[0]
	without := c
	extra.Without(&without)
	for name, state := range map[string]kernel.State{"none": {}, "with it": State(f, c), "of mode ipvs": ipvs.State(f, c)} {
		if extra.Absent(&state) {
			t.Errorf("rules %s: absent", name)
		}
	}
	if state := State(f, without); !extra.Absent(&state) {
		t.Error("rules without it: not absent")
	}
}
