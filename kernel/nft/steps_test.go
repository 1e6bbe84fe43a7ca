package nft

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// fewer is mapState with one endpoint less: its frontend leads to another chain.
func fewer(t *testing.T) (more, less kernel.State) {
	return parsed(t, mapState), parsed(t, strings.NewReplacer("LB-2", "LB-1", "--random 2", "--random 1",
		"add KUBE-SLOTS 10.96.0.1,tcp:80,slot:1 : 10.2.0.2:8080\n", "").Replace(mapState))
}

// A chain that a frontend is to lead to is there before that, and what it led to until then goes after it. A load is
// one transaction, and so is a removal.
func TestSteps(t *testing.T) {
	more, less := fewer(t)
	for _, c := range []struct {
		have, want kernel.State
		steps      string
	}{
		{kernel.State{}, more, "all"},
		{more, kernel.State{}, "all"},
		{more, less, "+ chain KUBE-LB-1, ~ entry KUBE-FRONTENDS, - entry KUBE-SLOTS - chain KUBE-LB-2"},
		{less, more, "+ chain KUBE-LB-2, + entry KUBE-SLOTS ~ entry KUBE-FRONTENDS, - chain KUBE-LB-1"},
	} {
		todo := plan.Once(c.want, kernel.Observed{State: c.have, Names: kernel.DefaultNames, Native: true}).Ops
		todo = slices.DeleteFunc(todo, func(o kernel.Op) bool { return o.Object.Kind() == kernel.KindFlow })
		var all []string
		for _, places := range steps(todo, kernel.DefaultNames) {
			var step []string
			for _, i := range places {
				name := ""
				switch o := todo[i].Object.(type) {
				case kernel.Entry:
					name = "entry " + o.Set
				case kernel.Chain:
					name = "chain " + o.Name
				}
				step = append(step, fmt.Sprint(todo[i].Verb)+" "+name)
			}
			all = append(all, strings.Join(step, " "))
		}
		if got := strings.Join(all, ", "); got != c.steps && (c.steps != "all" || len(all) != 1) {
			t.Errorf("%s, want %s", got, c.steps)
		}
	}
}

// After a step that is refused nothing is done, and each op has an error. What was done before it has none.
func TestRefusedStep(t *testing.T) {
	table := open(t, kernel.DefaultNames)
	more, less := fewer(t)
	apply(t, table, more)
	all := ops(t, table, less)
	for i := range all {
		if e, ok := all[i].Object.(kernel.Entry); ok && all[i].Verb == kernel.Change {
			e.Proto = 0 // no element of the map
			all[i].Object = e
		}
	}
	errs := table.Apply(all)
	done, refused, left := 0, 0, 0
	for _, err := range errs {
		switch {
		case err == nil:
			done++
		case errors.Is(err, kernel.ErrNotDone):
			left++
		default:
			refused++
		}
	}
	if done != 1 || refused != 1 || left != 2 {
		t.Errorf("%d ops done, %d refused, %d left: %v", done, refused, left, errs)
	}
	apply(t, table, less)
}
