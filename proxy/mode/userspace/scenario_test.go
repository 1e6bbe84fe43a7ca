package userspace

import (
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// TestScenarios runs each scenario of testdata/rules: the relay serves what IPVS does, with
// the same real servers, weights and affinity, except SCTP, ports with source ranges, and
// forwarding methods. Each of these is named by Doubts.
func TestScenarios(t *testing.T) {
	modetest.Run(t, "", func(t *testing.T, s *modetest.Scenario, w modetest.Section) (string, error) {
		f := frontend.List(s.Table, s.Node, s.Config.Frontends)
		ours, theirs := Mode{}.State(f, s.Config), ipvs.State(f, s.Config)
		if len(ours.Chains)+len(ours.Sets)+ours.Entries.Len() > 0 {
			t.Errorf("it needs more than sockets:\n%s", ours)
		}
		left := map[kernel.VirtualKey]bool{}
		for i := range f.Fronts {
			left[f.Fronts[i].Key] = (Mode{}).WhyNot(&f.Fronts[i]) != ""
		}
		var want kernel.State
		for _, v := range theirs.Virtuals {
			if !left[v.Key] {
				v.Scheduler, _ = Nearest(v.Scheduler)
				at, _ := f.Find(v.Key)
				v.Flags = flags(v.Flags, f.Service(&f.Fronts[at]))
				want.Virtuals = append(want.Virtuals, v)
			}
		}
		for _, r := range theirs.Reals.All() {
			if !left[r.Key.Virtual] {
				r.Forward, r.Tunnel, r.TunnelPort = kernel.Masquerade, 0, 0
				want.Reals = want.Reals.With(nil, []kernel.Real{r})
			}
		}
		if got, want := (kernel.State{Virtuals: ours.Virtuals, Reals: ours.Reals}).String(), want.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		return w.Text, nil
	})
}
