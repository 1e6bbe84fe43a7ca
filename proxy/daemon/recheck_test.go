package daemon

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/mode/userspace"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// When a preferred mode can be used by now, that is said once: in status, metrics and events. Nothing else changes.
func TestPreferredModeCanBeUsedAgain(t *testing.T) {
	n := startAs(t, status.Daemon{Mode: "userspace", Fallbacks: []status.Fallback{
		{Mode: "ipvs", Reason: "this kernel has no IPVS"}, {Mode: "iptables", Reason: "iptables is not installed"},
	}})
	answers := []string{"", "", "iptables"}
	tick := make(chan time.Time, len(answers)+1)
	for range cap(tick) {
		tick <- time.Now()
	}
	asked := 0
	n.console.recheck(t.Context(), tick, func(context.Context) string { asked++; return answers[asked-1] })
	if asked != len(answers) {
		t.Errorf("asked %d times, want %d", asked, len(answers))
	}
	_, site := n.console.listeners()
	_, body := n.get(site, "/metrics")
	for _, want := range []string{
		`svcproxy_mode_info{configured="",mode="userspace",reason="ipvs: this kernel has no IPVS; iptables: iptables is not installed"} 1`,
		`svcproxy_mode_available{mode="iptables"} 1`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
	if _, body := n.get(site, "/proxyMode"); body != "userspace" {
		t.Error(body)
	}
	st, err := n.client.Status(t.Context(), false)
	if err != nil || st.Daemon.AvailableMode != "iptables" || st.Verdict("") != status.Degraded ||
		len(st.Problems) != 1 || !strings.Contains(st.Problems[0], "iptables could be used now: restart svcproxy") {
		t.Errorf("%q, %q, %v", st.Daemon.AvailableMode, st.Problems, err)
	}
	var found []events.Event
	err = n.client.Events(t.Context(), 0, false, func(e events.Event) error {
		if e.Kind == events.ModeAvailable {
			found = append(found, e)
		}
		return nil
	})
	if err != nil || len(found) != 1 || found[0].Text != "mode iptables could be used now: restart svcproxy to use it instead of userspace" {
		t.Error(found, err)
	}
	healthz, _ := n.console.listeners()
	if code, _ := n.get(healthz, "/healthz"); code != http.StatusOK {
		t.Error(code)
	}
}

// A check that finds nothing ends with svcproxy.
func TestRecheckEnds(t *testing.T) {
	n := startAs(t, status.Daemon{Mode: "iptables", Fallbacks: []status.Fallback{{Mode: "ipvs", Reason: "this kernel has no IPVS"}}})
	ctx, cancel := context.WithCancel(t.Context())
	tick := make(chan time.Time, 1)
	tick <- time.Now()
	n.console.recheck(ctx, tick, func(context.Context) string { cancel(); return "" })
	if found := n.console.better.Load(); found != nil {
		t.Error(*found)
	}
}

// The check asks what a start asks: it finds the first mode that a start could use, and leaves no rules.
func TestPreferredAsksTheKernel(t *testing.T) {
	kerneltest.NewNamespace(t)
	kerneltest.Need(t, kerneltest.Tool("iptables"))
	setup := func() Setup {
		s := Setup{Writes: true, used: userspace.Mode{}}
		s.Config = config.Default()
		s.Config.StateDir = t.TempDir()
		return s
	}
	want := ""
	for _, m := range modes()[:3] {
		s := setup()
		if k, err := s.openFor(t.Context(), kernel.DefaultNames, s.ways(m)[0]); err == nil {
			k.Close()
			want = m.Name()
			break
		}
	}
	s := setup()
	if got := s.preferred(t.Context(), kernel.DefaultNames); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if s.used.Name() != "userspace" {
		t.Errorf("the mode is now %s", s.used.Name())
	}
	if rules := kerneltest.Run(t, "iptables-save"); strings.Contains(rules, "KUBE-") {
		t.Errorf("left:\n%s", rules)
	}
	t.Logf("preferred: %q", want)
}
