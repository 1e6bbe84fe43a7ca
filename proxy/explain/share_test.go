package explain

import (
	"fmt"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

func TestShares(t *testing.T) {
	for _, c := range []struct {
		scheduler string
		weights   []uint32
		want      string
	}{
		{"rr", []uint32{1, 3, 0}, "0.5 0.5 0 "},
		{"dh", []uint32{1, 3}, "- - "},
		{"wrr", []uint32{1, 3, 0}, "0.25 0.75 0 "},
		{"mh", []uint32{1, 1, 2}, "0.25 0.25 0.5 "},
		{"sh", []uint32{0, 0}, "0 0 "},
		{"fo", []uint32{1, 3, 3}, "0 1 0 "},
		{"fo", []uint32{0, 0}, "0 0 "},
		{"wlc", []uint32{1, 3}, "- - "},
		{"rr", nil, ""},
		{"fo", nil, ""},
	} {
		reals := make([]kernel.Real, len(c.weights))
		for i, w := range c.weights {
			reals[i].Weight = w
		}
		got := ""
		for _, s := range shares(c.scheduler, reals) {
			if s == nil {
				got += "- "
				continue
			}
			got += fmt.Sprint(*s) + " "
		}
		if got != c.want {
			t.Errorf("%s %v: %q, want %q", c.scheduler, c.weights, got, c.want)
		}
	}
}

// What is left of the tracer's lines: rules that do something, and the conditional jumps
// that lead to them.
func TestTelling(t *testing.T) {
	got := telling([]string{
		"nat PREROUTING: -j KUBE-SERVICES: yes",
		"nat KUBE-SERVICES: -m set --match-set A dst -j KUBE-LB: yes, x is in A",
		"nat KUBE-LB: -j KUBE-MARK-MASQ: yes",
		"nat KUBE-MARK-MASQ: -j MARK --set-xmark 0x4000/0x4000: yes",
		"nat KUBE-SERVICES: -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT: yes, the destination is the node's own",
		"nat KUBE-FW: : yes",
		"filter INPUT: -j KUBE-NODE-PORT: yes",
		"no virtual server at 192.0.2.1:22: the node itself",
	})
	want := []string{
		"nat KUBE-SERVICES: -m set --match-set A dst -j KUBE-LB: yes, x is in A",
		"nat KUBE-MARK-MASQ: -j MARK --set-xmark 0x4000/0x4000: yes",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
}
