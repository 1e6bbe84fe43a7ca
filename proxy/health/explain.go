package health

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Explained says why a port of an endpoint has the weight that it has.
type Explained struct {
	Port     string // of the service
	Protocol sources.Protocol
	Addr     netip.AddrPort

	Cause Cause
	Mode  Mode // of the endpoint's group

	Weight, Source uint32 // as served, and as its source has it
	Cut            bool   // its connections end

	Target  Key // zero if it is not checked
	Verdict Verdict
	Silent  bool // it is down because it answers none of its clients

	Out, Reweighed *Override // the operator's orders; nil = none
	Percent, Step  uint32    // of its weight: the share it asks for or was given, and sixteenths of a slow start
}

// Explainer explains many services. One goroutine uses it.
type Explainer struct{ judge *judge }

// NewExplainer returns an Explainer of what is known now.
func NewExplainer(k Known, now time.Time) Explainer { return Explainer{newJudge(k, now)} }

// Explain returns the verdict on each port of a service's endpoints, in the order of the table.
func (x Explainer) Explain(s *sources.Service) []Explained {
	j := x.judge
	if !j.judge(s) {
		j.unjudged()
	}
	j.ramp()
	scale := j.scale()
	list := make([]Explained, 0, len(j.slots))
	for i := range j.slots {
		x := &j.slots[i]
		e := &s.Endpoints[x.endpoint]
		p := e.Ports[x.port]
		list = append(list, Explained{
			Port: p.Name, Protocol: p.Protocol, Addr: netip.AddrPortFrom(e.Addr, p.Port),
			Cause: x.cause, Mode: x.mode, Weight: x.tableWeight(scale, e.Weight), Source: e.Weight, Cut: x.isCut(),
			Target: x.key, Verdict: x.verdict, Silent: x.silent, Out: x.out, Reweighed: x.reweighed,
			Percent: x.percent, Step: x.step,
		})
	}
	return list
}

// unjudged fills the slots of a service that only its source decides on.
func (j *judge) unjudged() {
	for i := range j.service.Endpoints {
		for k := range j.service.Endpoints[i].Ports {
			j.slots = append(j.slots, j.slot(i, k, false))
		}
	}
}

// Text says it in a few words: "up 3h", "down 12s: refused", `drained by root 5m: "kernel upgrade"`.
func (x *Explained) Text(now time.Time) string {
	switch x.Cause {
	case ByFile:
		if x.Source == 0 {
			return "weight 0"
		}
		return "not ready"
	case Drained, Disabled:
		return x.ordered(now)
	case Asked:
		return "its agent asks: " + x.Verdict.Ask.String()
	case Waits:
		return "waits for its first result"
	}
	text := x.health(now)
	switch {
	case x.Cause == Standby:
		return "standby, " + text
	case x.Cause == Spared && x.Mode == BelowLimit:
		text += ", serves as too few are up"
	case x.Cause == Spared:
		text += ", serves as none is up"
	}
	if x.Reweighed != nil {
		text += fmt.Sprintf(", weight %s by %s", x.Reweighed.Weight, x.Reweighed.By)
	} else if x.Percent != 100 {
		text += fmt.Sprintf(", %d%% by its agent", x.Percent)
	}
	if x.Step < rampSteps && x.Cause <= Spared {
		text += fmt.Sprintf(", slow start %d/%d", x.Step, rampSteps)
	}
	return text
}

// ordered says who took the endpoint out.
func (x *Explained) ordered(now time.Time) string {
	o := x.Out
	if o == nil {
		o = x.Reweighed
	}
	text := x.Cause.String()
	if o.By != "" {
		text += " by " + o.By
	}
	text += " " + short(now.Sub(o.Made))
	if o.Why != "" {
		text += fmt.Sprintf(": %q", o.Why)
	}
	return text
}

// health says what the probes found.
func (x *Explained) health(now time.Time) string {
	v := &x.Verdict
	switch {
	case x.Target == (Key{}):
		return "not checked"
	case x.Silent:
		return "down: it does not answer its clients"
	case v.Phase == Unknown:
		return "no result yet"
	}
	text := "up"
	if v.Phase.IsDown() {
		text = "down"
	}
	if !v.Changed.IsZero() {
		text += " " + short(now.Sub(v.Changed))
	}
	if v.Phase.IsDown() && v.Reason != "" {
		text += ": " + v.Reason
	}
	switch {
	case v.Held:
		text += ", held up in a mass failure"
	case v.Phase == Failing:
		text += fmt.Sprintf(", failing: %s (%d in a row)", v.Last.Reason, v.Run)
	case v.Phase == Recovering:
		text += fmt.Sprintf(", recovering (%d in a row)", v.Run)
	}
	if v.Flapping() {
		text += ", flapping"
	}
	return text
}

// short returns a duration in its largest unit.
func short(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= u.size {
			return fmt.Sprintf("%d%s", d/u.size, u.name)
		}
	}
	return fmt.Sprintf("%ds", max(d, 0)/time.Second)
}
