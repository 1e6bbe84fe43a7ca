package iptables

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// eachChange runs a test for each change of back end: rules of a run before are in the tables of from, and svcproxy
// opens those of to. With lacks, the tools of from are not installed.
func eachChange(t *testing.T, lacks bool, test func(t *testing.T, from, to backend)) {
	for i, to := range backends {
		from := backends[1-i]
		t.Run(from+" to "+to, func(t *testing.T) {
			kerneltest.Need(t, kerneltest.Tool("iptables-"+from), kerneltest.Tool("iptables-"+to))
			kerneltest.NewNamespace(t)
			open := func(name string) backend {
				tt, err := Open(t.Context(), Options{Find: func(tool string) (string, error) {
					switch {
					case !strings.Contains(tool, "-"+from) && !strings.Contains(tool, "-"+to):
						return find(named(tool, name))
					case lacks:
						return "", &exec.Error{Name: tool, Err: exec.ErrNotFound}
					}
					return find(tool)
				}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { tt.Close() })
				return backend{tt, name}
			}
			test(t, open(from), open(to))
		})
	}
}

func (b backend) others(t *testing.T) []kernel.OtherChain {
	t.Helper()
	others, err := b.Others(t.Context(), kernel.DefaultNames)
	if err != nil {
		t.Fatal(err)
	}
	return others
}

// removeOthers carries out the plan that makes the other back end as wanted.
func (b backend) removeOthers(t *testing.T, want ...kernel.OtherChain) {
	t.Helper()
	p := plan.Once(kernel.State{Others: want}, kernel.Observed{State: kernel.State{Others: b.others(t)}, Names: kernel.DefaultNames})
	for i, err := range b.ApplyOthers(t.Context(), p.Ops) {
		if err != nil {
			t.Fatalf("%s: %v", p.Ops[i], err)
		}
	}
}

const more = small + `#: iptables
*raw
:KUBE-UNTRACKED - [0:0]
-A PREROUTING -j KUBE-UNTRACKED
-A KUBE-UNTRACKED -p sctp -j RETURN
COMMIT
`

// What an earlier run left in the other back end is found, letter for letter, and removed; what other programs have there
// stays. Nothing runs while nothing changes there, nor where nothing of ours is.
func TestKernelOthers(t *testing.T) {
	eachChange(t, false, func(t *testing.T, from, to backend) {
		if others := to.others(t); len(others) != 0 {
			t.Fatalf("in an empty namespace: %v", others)
		}
		from.restore(t, "iptables", foreign)
		before := from.save(t, "iptables") + from.save(t, "ip6tables")
		idle := to.Stats().Readers
		if others := to.others(t); len(others) != 0 || to.Stats().Readers != idle {
			t.Fatalf("of other programs: %v, %d tools ran", others, to.Stats().Readers-idle)
		}
		want := wanted(t, more)
		from.sync(t, want)
		others := to.others(t)
		if got := (kernel.State{Others: others}).String(); got != strings.ReplaceAll(want.String(), "tables\n*", "tables-"+from.name+"\n*") {
			t.Fatalf("read\n%s", got)
		}
		idle = to.Stats().Readers
		if again := to.others(t); !slices.Equal(again, others) || to.Stats().Readers != idle {
			t.Errorf("read once more: %v, %d tools ran", again, to.Stats().Readers-idle)
		}
		to.removeOthers(t)
		if left := to.others(t); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
		after := from.save(t, "iptables") + from.save(t, "ip6tables")
		for _, table := range []string{"*nat", "*filter"} { // tables and chains that writing made stay, empty
			for line := range strings.Lines(before) {
				if !strings.Contains(after, line) {
					t.Errorf("%s: %q is gone from\n%s", table, line, after)
				}
			}
		}
		if strings.Contains(after, "KUBE-MARK") || strings.Contains(after, "KUBE-UNTRACKED") || strings.Count(after, "-A ") != strings.Count(before, "-A ") {
			t.Errorf("after:\n%s\nbefore:\n%s", after, before)
		}
		if to.save(t, "iptables") != "" && strings.Contains(to.save(t, "iptables"), "KUBE") {
			t.Errorf("it wrote the wrong back end")
		}
	})
}

// Some chains stay, as kube-proxy's do in a cleanup. Jumps of another run in the same built-in chain go.
func TestKernelOthersStayInPart(t *testing.T) {
	eachChange(t, false, func(t *testing.T, from, to backend) {
		from.sync(t, wanted(t, small))
		stay := slices.DeleteFunc(to.others(t), func(c kernel.OtherChain) bool { return c.Family == kernel.IPv6 || c.Name == "KUBE-PROXY-FIREWALL" })
		for i := range stay {
			if stay[i].Name == "FORWARD" {
				stay[i].Rules = "-m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD"
			}
		}
		to.removeOthers(t, stay...)
		if left := to.others(t); !slices.Equal(left, stay) {
			t.Errorf("left\n%swant\n%s", kernel.State{Others: left}, kernel.State{Others: stay})
		}
	})
}

// Without the tools of the other back end only the names of chains are known. Those of nftables are removed all the same.
func TestKernelOthersWithoutTool(t *testing.T) {
	eachChange(t, true, func(t *testing.T, from, to backend) {
		from.restore(t, "iptables", foreign)
		from.sync(t, wanted(t, more))
		if from.name == "nft" {
			from.restore(t, "iptables", "*filter\n-A FOREIGN -j KUBE-FORWARD\nCOMMIT\n")
			to.wantRemoved(t, from)
			return
		}
		others := to.others(t)
		if len(others) != 6 || !others[0].Stuck || others[0].Tool() != "iptables-legacy" {
			t.Fatalf("%+v", others)
		}
		p := plan.Once(kernel.State{}, kernel.Observed{State: kernel.State{Others: others}, Names: kernel.DefaultNames})
		if len(p.Ops) != 0 || len(p.Others) != 6 || !strings.Contains(p.String(), "install iptables-legacy") {
			t.Errorf("%s", p)
		}
	})
}

// wantRemoved removes our chains without a tool. One to which another program jumps is emptied, and its op fails.
func (b backend) wantRemoved(t *testing.T, from backend) {
	t.Helper()
	p := plan.Once(kernel.State{}, kernel.Observed{State: kernel.State{Others: b.others(t)}, Names: kernel.DefaultNames})
	failed := 0
	for _, err := range b.ApplyOthers(t.Context(), p.Ops) {
		if err != nil && strings.Contains(err.Error(), "still jumps to it: KUBE-FORWARD") {
			failed++
		}
	}
	left := b.others(t)
	if failed == 0 || len(left) != 1 || left[0].Name != "KUBE-FORWARD" {
		t.Errorf("%d failed, left %v", failed, left)
	}
	rules := from.save(t, "iptables")
	if strings.Contains(rules, "-A KUBE") || strings.Contains(rules, "-A FORWARD -m comment") || !strings.Contains(rules, "-A INPUT -j FOREIGN") {
		t.Errorf("%s", rules)
	}
}

// A rule of nft hides a table from the tool. Its chains are found and removed all the same.
func TestKernelHiddenOther(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"))
	eachChange(t, false, func(t *testing.T, from, to backend) {
		if from.name != "nft" {
			return
		}
		from.sync(t, wanted(t, small))
		kerneltest.Run(t, "nft", "add rule ip filter FORWARD ct state established accept")
		to.removeOthers(t)
		if left := to.others(t); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
		if table := kerneltest.Run(t, "nft", "list table ip filter"); strings.Contains(table, "KUBE") || !strings.Contains(table, "ct state established") {
			t.Errorf("the table is\n%s", table)
		}
	})
}

// A tool that is installed later is found although no rule changes, and runs once. While it fails, the last reading holds.
func TestOthersToolComesAndFails(t *testing.T) {
	err := error(&exec.Error{Name: "iptables-legacy-save", Err: exec.ErrNotFound})
	tt, _ := fake(func(context.Context, string, ...string) (string, error) {
		return "*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -j RETURN\nCOMMIT\n", err
	})
	s := &still{id: "1", names: map[string][]string{"nat": {"KUBE-SERVICES"}}}
	tt.others = []*family{{Family: kernel.IPv4, tool: Tool{Name: "iptables-legacy"}, stamp: s, other: true}}
	failed := errors.New("exit status 1")
	for i, step := range []struct {
		id    string
		err   error
		stuck bool
		runs  uint64
	}{
		{"1", err, true, 0}, {"1", err, true, 0}, {"1", nil, false, 1}, {"1", nil, false, 1}, {"2", failed, false, 2}, {"2", nil, false, 3},
	} {
		s.id, err = step.id, step.err
		others, got := tt.Others(t.Context(), kernel.DefaultNames)
		if len(others) != 1 || others[0].Stuck != step.stuck || others[0].Rules == "" != step.stuck || tt.Stats().Readers != step.runs {
			t.Errorf("step %d: %+v, %d runs", i, others, tt.Stats().Readers)
		}
		if errors.Is(got, failed) != (step.err == failed) || got != nil && step.err != failed {
			t.Errorf("step %d: %v", i, got)
		}
	}
}

func FuzzLegacyChains(f *testing.F) {
	f.Add([]byte(strings.Repeat("\x00", 112)))
	f.Fuzz(func(t *testing.T, entries []byte) {
		for _, l := range layouts {
			if names, err := l.chains(entries); err == nil && len(names) > len(entries)/l.size {
				t.Errorf("%d names in %d bytes", len(names), len(entries))
			}
		}
	})
}
