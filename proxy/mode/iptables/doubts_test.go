package iptables

import (
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

func TestDoubts(t *testing.T) {
	table := modetest.Big(4, 1)
	doubts := func(scheduler string, c mode.Config) []string {
		return new(Mode).Doubts(frontend.List(table, kernel.Node{}, frontend.Config{Scheduler: scheduler}), c)
	}
	if got := doubts("rr", mode.Config{NoAffinity: true}); got != nil {
		t.Errorf("of a usual table: %q", got)
	}
	table.Services.At(0).Scheduler = "wrr"
	table.Services.At(1).Scheduler, table.Services.At(1).Affinity = "mh", sources.AffinityClientIP
	table.Services.At(3).Forward = sources.Direct
	table.Services.At(2).Scheduler, table.Services.At(2).Type = "mh", sources.Headless
	want := []string{
		"mode iptables has no scheduler wlc and chooses at random, by weights",
		"s00001: mode iptables has no scheduler mh and chooses at random, by weights",
		`s00003: mode iptables cannot forward by "direct" and masquerades`,
		"session affinity of 1 service remembers the last 100 clients of each endpoint: for more, set options xt_recent ip_list_tot=N in /etc/modprobe.d",
	}
	if got := doubts("wlc", mode.Config{}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	want[3] = "session affinity of 1 service (s00001) has no effect: iptables or the kernel has no match recent: load or install module xt_recent, then restart svcproxy"
	if got := doubts("wlc", mode.Config{NoAffinity: true}); !slices.Equal(got, want) {
		t.Errorf("without recent: got %q, want %q", got, want)
	}
}
