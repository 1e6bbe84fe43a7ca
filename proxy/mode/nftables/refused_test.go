package nftables_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/proxy/mode/nftables"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// nativeModes are the modes whose sets and chains package nft writes.
var nativeModes = map[string]func(*frontend.Frontends, mode.Config) kernel.State{
	"ipvs": ipvs.State, "nftables": nftables.State,
}

// drawWanted is what a mode wants for random services.
func drawWanted(t *rapid.T, node kernel.Node, c mode.Config, modes ...string) kernel.State {
	of := nativeModes[rapid.SampledFrom(modes).Draw(t, "mode")]
	s := of(frontend.List(modetest.SmallTable(t), node, c.Frontends), c)
	for i := range s.Sets { // as kernel/nft reads them: none is replaced
		if s.Sets[i].Type != kernel.BitmapPort {
			s.Sets[i].MaxElem = 1 << 20
		}
	}
	return s
}

// Where sets and chains are written in one transaction, an op that the kernel refuses for good keeps back itself and
// what needs it, and nothing else.
func TestOneRefusedOp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, c := modetest.DrawNode(t), modetest.DrawConfig(t)
		c.Names, c.Native = kernel.DefaultNames, true
		modes := slices.Sorted(maps.Keys(nativeModes))
		k := fake.New(c.Names, node, kernel.State{})
		k.Atomic = true
		read := func() kernel.Observed {
			o, err := k.Read(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			o.Native = true
			return o
		}
		if err := k.Apply(context.Background(), plan.Once(drawWanted(t, node, c, modes...), read())); err != nil {
			t.Fatal(err)
		}
		want := kernel.State{}
		if rapid.IntRange(0, 3).Draw(t, "cleanup") > 0 {
			want = drawWanted(t, node, c, modes...)
		}
		all := slices.DeleteFunc(plan.Once(want, read()).Ops, func(o kernel.Op) bool { return o.Object.Kind() == kernel.KindFlow })
		if len(all) == 0 {
			return
		}
		bad := all[rapid.IntRange(0, len(all)-1).Draw(t, "refused")]
		k.Fail = func(o kernel.Op) error {
			if o.String() == bad.String() {
				return syscall.EINVAL
			}
			return nil
		}
		var p kernel.Plan
		var err error
		for range 2 {
			p = plan.Once(want, read())
			err = k.Apply(context.Background(), p)
		}
		var failed *kernel.ApplyError
		if !errors.As(err, &failed) {
			return // not the same op in the second plan
		}
		for _, f := range failed.Failed {
			if f.Op.String() != bad.String() && !errors.Is(f.Err, plan.ErrSkipped) {
				t.Fatalf("%s is refused, and so is %s: %v\nplan:\n%s", bad, f.Op, f.Err, p)
			}
		}
		for _, o := range plan.Once(want, read()).Ops {
			kind := o.Object.Kind()
			known := kind == kernel.KindSysctl || kind == kernel.KindFlow || slices.ContainsFunc(failed.Failed, func(f *kernel.OpError) bool { return f.Op.String() == o.String() })
			if !known {
				t.Fatalf("%s is refused, and this is new in the third plan: %s", bad, o)
			}
		}
	})
}
