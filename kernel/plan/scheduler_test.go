package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// virtualWith parses a virtual server that is ours, with real servers of these weights.
func virtualWith(t *testing.T, virtual string, weights ...int) kernel.Observed {
	t.Helper()
	var b strings.Builder
	b.WriteString("create KUBE-VIRTUAL-SERVER hash:ip,port family inet maxelem 1024\nadd KUBE-VIRTUAL-SERVER 10.96.0.1,tcp:80\n")
	fmt.Fprintf(&b, "-A -t 10.96.0.1:80 %s\n", virtual)
	for i, w := range weights {
		fmt.Fprintf(&b, "-a -t 10.96.0.1:80 -r 10.2.0.%d:8080 -m -w %d\n", i+1, w)
	}
	o, err := kernel.ParseObserved(b.String())
	if err != nil {
		t.Fatal(err)
	}
	o.Names = kernel.DefaultNames
	return o
}

func TestRoundRobinStays(t *testing.T) {
	for name, c := range map[string]struct {
		want, have string
		weights    []int // as wanted
		stays      bool
	}{
		"equal weights":          {"-s wrr", "-s rr", []int{1, 1, 1}, true},
		"equal weights above 1":  {"-s wrr", "-s rr", []int{7, 7}, true},
		"one real server":        {"-s wrr", "-s rr", []int{5}, true},
		"none":                   {"-s wrr", "-s rr", nil, true},
		"one drains":             {"-s wrr", "-s rr", []int{0, 3, 3}, true},
		"all drain":              {"-s wrr", "-s rr", []int{0, 0}, true},
		"different weights":      {"-s wrr", "-s rr", []int{1, 1, 2}, false},
		"different, one drains":  {"-s wrr", "-s rr", []int{0, 2, 1}, false},
		"rr is wanted":           {"-s rr", "-s wrr", []int{1, 1}, false},
		"least connections":      {"-s wlc", "-s lc", []int{1, 1}, false},
		"another scheduler":      {"-s wrr", "-s sh", []int{1, 1}, false},
		"persistence is wanted":  {"-s wrr -p 60", "-s rr", []int{1, 1}, false},
		"another timeout of it":  {"-s wrr -p 60", "-s rr -p 90", []int{1, 1}, false},
		"persistence is as ever": {"-s wrr -p 60", "-s rr -p 60", []int{1, 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			want, have := virtualWith(t, c.want, c.weights...), virtualWith(t, c.have, c.weights...)
			p := Once(want.State, have)
			if p.Empty() != c.stays || p.RoundRobin != c.stays {
				t.Errorf("plan, round robin %t:\n%s", p.RoundRobin, p)
			}
			if got, _ := Applied(have, want.State, p); c.stays != (got.Virtuals[0] == have.Virtuals[0]) {
				t.Errorf("after the plan: %s", got.Virtuals[0])
			}
		})
	}
}

// A virtual server that was left with rr gets wrr when weights first differ, which repairs nothing, and keeps it.
func TestRoundRobinEnds(t *testing.T) {
	equal, different := virtualWith(t, "-s wrr", 1, 1), virtualWith(t, "-s wrr", 1, 3)
	different.Virtuals = equal.Virtuals // as a mode shares them
	have, _ := Applied(virtualWith(t, "-s rr", 1, 1), equal.State, Once(equal.State, virtualWith(t, "-s rr", 1, 1)))
	p := Once(different.State, have)
	const change = "~ -E -t 10.96.0.1:80 -s wrr (was -A -t 10.96.0.1:80 -s rr)\n"
	if got := p.String(); !strings.HasPrefix(got, change) || len(p.Ops) != 2 {
		t.Fatalf("weights differ:\n%s", got)
	}
	if r := Repairs(have.State, have.State, p.Ops); len(r) > 0 {
		t.Errorf("drift: %v", r)
	}
	have, _ = Applied(have, different.State, p)
	if p := Once(equal.State, have); len(p.Ops) != 1 || p.Ops[0].Object.Kind() != kernel.KindReal {
		t.Errorf("weights are equal again:\n%s", p)
	}
}

// One that another program made is adopted with rr, as with wrr.
func TestRoundRobinIsAdopted(t *testing.T) {
	want, have := virtualWith(t, "-s wrr", 1, 1), virtualWith(t, "-s rr", 1, 1)
	have.Entries = kernel.Entries{}
	p := Once(want.State, have)
	if len(p.Conflicts) > 0 || !p.RoundRobin || len(p.Ops) != 1 || p.Ops[0].Object.Kind() != kernel.KindEntry {
		t.Errorf("conflicts %v, plan:\n%s", p.Conflicts, p)
	}
}
