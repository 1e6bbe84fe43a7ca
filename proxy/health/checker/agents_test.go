package checker

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/sources"
)

// agent is an agent on loopback that gives one answer after the other.
type agent struct {
	*server
	says atomic.Value
}

func newAgent(t *testing.T) *agent {
	a := &agent{server: newServer(t)}
	a.says.Store("up\n")
	go func() {
		for {
			c, err := a.l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte(a.says.Load().(string)))
			c.(*net.TCPConn).CloseWrite()
			bufio.NewReader(c).ReadString('\n') // until the probe is over
			c.Close()
		}
	}()
	return a
}

// TestAgentsAnswerAsInHAProxy gives each answer of testdata/agent-answers.txt to a probe, and compares with HAProxy.
func TestAgentsAnswerAsInHAProxy(t *testing.T) {
	file, err := os.ReadFile("testdata/agent-answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	server, what := newAgent(t), sources.Probe{Type: sources.CheckAgent, Timeout: 10 * time.Second}
	var prober probe.Prober
	answers := 0
	for block := range strings.SplitSeq(string(file), "\n\n") {
		var s health.State
		for line := range strings.Lines(strings.TrimSpace(block)) {
			if line[0] == '#' {
				continue
			}
			quoted, _ := strconv.QuotedPrefix(line)
			answer, _ := strconv.Unquote(quoted)
			server.says.Store(answer)
			r := prober.Do(t.Context(), &what, server.addr, probe.Meta{})
			s = health.Step(s, resultOf(sources.CheckAgent, r, time.Now()), health.Pace{Fall: 3, Rise: 2})
			if got, want := asHAProxy(s), strings.Join(strings.Fields(line[len(quoted):]), " "); got != want {
				t.Errorf("%s in\n%s\nis %s, want %s", quoted, block, got, want)
			}
			answers++
		}
	}
	if answers < 100 {
		t.Errorf("%d answers", answers)
	}
}

// asHAProxy is a state in HAProxy's words, with the weight of a server whose configured weight is 100.
func asHAProxy(s health.State) string {
	state, weight := "UP", 100
	if s.Said.HasPercent {
		weight = min(int(s.Said.Percent), 256)
	}
	switch {
	case s.Ask == health.AskMaint:
		state = "MAINT"
	case s.Phase.IsDown():
		state = "DOWN"
	case s.Said.Ask == health.AskDrain:
		state = "DRAIN"
	}
	return fmt.Sprint(state, " ", weight)
}

// TestAgentWordsStayOverARestart: an agent that said "drain" once, and goes on with "up", stays drained when svcproxy
// starts again, from its first table on. So does a share, and that it is down. What the agent is sent may be any bytes.
func TestAgentWordsStayOverARestart(t *testing.T) {
	server, dir := newServer(t), t.TempDir()
	c := check()
	c.Probe.Type = sources.CheckAgent
	up := probe.Result{Outcome: probe.OK, Speaks: true}
	sends := []string{"", "web\n", "\xff\x00\xfe"}
	for i, test := range []struct {
		says  probe.Result
		again probe.Result // after the restart
		want  [2]uint32    // the weight at the start, and after again
	}{
		{probe.Result{Outcome: probe.OK, Verdict: probe.Drain}, up, [2]uint32{0, 0}},
		{probe.Result{Outcome: probe.OK, Verdict: probe.Maint}, up, [2]uint32{0, 0}},
		{probe.Result{Outcome: probe.OK, Verdict: probe.Ready}, up, [2]uint32{100, 100}},
		{probe.Result{Outcome: probe.OK, Percent: 30, HasPercent: true}, up, [2]uint32{30, 30}},
		{probe.Result{Outcome: probe.OK, HasPercent: true}, up, [2]uint32{0, 0}},
		{probe.Result{Outcome: probe.Agent, Speaks: true, Detail: "down"}, probe.Result{Outcome: probe.OK, Verdict: probe.Ready}, [2]uint32{0, 0}},
		{probe.Result{Outcome: probe.OK, Verdict: probe.Drain}, probe.Result{Outcome: probe.OK, Verdict: probe.Ready}, [2]uint32{0, 100}},
		{probe.Result{Outcome: probe.OK, Verdict: probe.Drain}, up, [2]uint32{0, 0}},
		{probe.Result{Outcome: probe.OK, Percent: 30, HasPercent: true}, up, [2]uint32{30, 30}},
	} {
		os.Remove(filepath.Join(dir, agentsFile))
		c.OnAllDown, c.Probe.Send = sources.AllDownClosed, sends[i%len(sends)]
		tab := table(c, server)
		before := restarted(t, dir)
		have := &kernel.Observed{}
		weight := func(of *rig) uint32 {
			m, _ := of.Overlay(sources.Merged{Table: tab}, have)
			return m.Services.At(0).Endpoints[0].Weight
		}
		weight(before)
		before.hears(test.says)
		was := weight(before)
		before.save(&before.agents.kept, time.Now().Add(time.Minute))

		have = kernelWith(tab, server.addr, was)
		after := restarted(t, dir)
		start := weight(after)
		after.hears(test.again)
		if got := [2]uint32{start, weight(after)}; got != test.want || was != start {
			t.Errorf("%+v, then %+v: weight %d, and %v after the restart, want %v", test.says, test.again, was, got, test.want)
		}
	}
}

// restarted is a checker that does not probe by itself.
func restarted(t *testing.T, dir string) *rig {
	c, err := New(Options{
		StateDir: dir, Log: slog.New(slog.DiscardHandler), Settings: Settings{Defaults: sources.DefaultHealthCheck()}, Wake: func() {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{Checker: c, t: t}
}

// hears gives the only target a result.
func (r *rig) hears(result probe.Result) {
	for _, x := range r.targets {
		r.record(&x.runs, result)
	}
}

// kernelWith gives the table's service a VIP, and is a kernel that has it with one real server.
func kernelWith(tab sources.Table, real netip.AddrPort, weight uint32) *kernel.Observed {
	tab.Services.At(0).ClusterIPs = []netip.Addr{netip.MustParseAddr("10.96.0.1")}
	v := kernel.VirtualAt(netip.MustParseAddrPort("10.96.0.1:80"), kernel.TCP)
	return &kernel.Observed{State: kernel.State{
		Virtuals: []kernel.Virtual{{Key: v, Scheduler: "rr"}},
		Reals:    kernel.RealsOf([]kernel.Real{{Key: kernel.RealKey{Virtual: v, Addr: real}, Weight: weight}}),
	}}
}

// TestAgentsFile: while a source has not delivered, what its agents said stays in the file. Garbage is no obstacle.
func TestAgentsFile(t *testing.T) {
	server, dir := newServer(t), t.TempDir()
	c := check()
	c.Probe.Type = sources.CheckAgent
	other := `{"version":1,"agents":[{"agent":"10.2.9.9:6666","send":"web\n","ask":"maint"}]}`
	path := filepath.Join(dir, agentsFile)
	if err := os.WriteFile(path, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	r := restarted(t, dir)
	for _, hold := range []bool{true, false} {
		r.Overlay(sources.Merged{Table: table(c, server), Keeps: hold}, &kernel.Observed{})
		r.hears(probe.Result{Outcome: probe.OK, Verdict: map[bool]probe.Verdict{true: probe.Drain, false: probe.Maint}[hold]})
		r.save(&r.agents.kept, time.Now())
		data, _ := os.ReadFile(path)
		if kept := strings.Contains(string(data), "10.2.9.9:6666"); kept != hold {
			t.Errorf("hold %v: %s", hold, data)
		}
	}
	for _, text := range []string{"", "x", `{"version":2}`, `{"version":1,"agents":[{"agent":"10.2.9.9:6666","ask":"secret"}]}`} {
		os.WriteFile(path, []byte(text), 0o600)
		if _, err := readAgents(dir); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
		restarted(t, dir)
	}
}
