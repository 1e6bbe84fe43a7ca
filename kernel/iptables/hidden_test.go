package iptables

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

const incompatible = "# Table `filter' is incompatible, use 'nft' tool.\n"

// A table that iptables-save does not show is not taken for one without chains: it is as Apply left it.
func TestHiddenTable(t *testing.T) {
	saved := "*filter\n:KUBE-FORWARD - [0:0]\n-A INPUT -j KUBE-FORWARD\nCOMMIT\n"
	tables, stamp := fake(func(_ context.Context, _ string, argv ...string) (string, error) {
		switch {
		case !strings.HasSuffix(argv[0], "-save"):
			return "", nil
		case argv[2] == "filter":
			return saved, nil
		}
		return emptySave, nil
	})
	read := func() []kernel.Chain {
		t.Helper()
		stamp.id += "."
		chains, err := tables.Read(t.Context(), kernel.DefaultNames)
		if err != nil {
			t.Fatal(err)
		}
		return chains
	}
	before := read()
	saved = incompatible
	if got := read(); len(before) != 2 || !slices.Equal(got, before) || !slices.Equal(tables.Hidden(), []string{"iptables filter"}) {
		t.Errorf("of a table that is not shown now: %v, and hidden %q; it was %v", got, tables.Hidden(), before)
	}
	more := kernel.Chain{Family: kernel.IPv4, Table: "filter", Name: "KUBE-PROXY-FIREWALL", Rules: "-j DROP"}
	for _, err := range tables.Apply(t.Context(), []kernel.Op{{Verb: kernel.Add, Object: more}, {Verb: kernel.Remove, Object: before[0], Was: before[0]}}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := read(); !slices.Contains(got, more) || slices.Contains(got, before[0]) || len(got) != 2 {
		t.Errorf("after a change: %v", got)
	}
	saved = "*filter\nCOMMIT\n"
	if got := read(); len(got) != 0 || tables.Hidden() != nil {
		t.Errorf("when it is shown again: %v, hidden %q", got, tables.Hidden())
	}
}

// A rule of nft that iptables cannot express hides its table. Jumps do not pile up in it, what svcproxy writes gets there,
// and what the table drops is found by other means.
func TestKernelHiddenTable(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"))
	eachBackend(t, func(t *testing.T, b backend) {
		if !strings.Contains(b.name, "nft") {
			return // the legacy tools show all of theirs
		}
		names := kernel.DefaultNames
		input := kernel.Chain{Family: kernel.IPv4, Table: "filter", Name: "INPUT", Rules: "-j KUBE-PROXY-FIREWALL"}
		ours := kernel.Chain{Family: kernel.IPv4, Table: "filter", Name: "KUBE-PROXY-FIREWALL", Rules: "-p sctp -j DROP"}
		apply := func(ops ...kernel.Op) {
			t.Helper()
			for _, err := range b.Apply(t.Context(), ops) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		read := func() string {
			t.Helper()
			chains, err := b.Read(t.Context(), names)
			if err != nil {
				t.Fatal(err)
			}
			return kernel.State{Chains: chains}.String()
		}
		apply(kernel.Op{Verb: kernel.Add, Object: input}, kernel.Op{Verb: kernel.Add, Object: ours})
		before := read()
		kerneltest.Run(t, "nft", "add rule ip filter INPUT ct state established accept")
		kerneltest.Run(t, "nft", "chain ip filter INPUT { policy drop; }")
		if got := read(); got != before || len(b.Hidden()) != 1 {
			t.Errorf("read %s, hidden %q; it was %s", got, b.Hidden(), before)
		}
		if got := firewall(t, b); !strings.Contains(got, "firewall ipv4 input 0 drop nftables ip filter INPUT") {
			t.Errorf("a chain that drops is not found:\n%s", got)
		}
		to := ours
		to.Rules = "-p udp -j DROP"
		apply(kernel.Op{Verb: kernel.Change, Object: to, Was: ours})
		if got := read(); !strings.Contains(got, "-p udp -j DROP") {
			t.Errorf("after a change: %s", got)
		}
		table := kerneltest.Run(t, "nft", "list table ip filter")
		if strings.Count(table, "jump KUBE-PROXY-FIREWALL") != 1 || strings.Contains(table, "sctp") || !strings.Contains(table, "udp") {
			t.Errorf("the table is\n%s", table)
		}
	})
}
