package probe

import (
	"net"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
)

func TestAgent(t *testing.T) {
	p := sources.Probe{Type: sources.CheckAgent}
	expect(t, "ok", p, serve(t, func(c net.Conn) { c.Write([]byte("up\n")); hangs(c) }))
	expect(t, "ok", p, serve(t, func(c net.Conn) { c.Write([]byte("75% ready")) }))
	expect(t, "closed: answer", p, serve(t, func(net.Conn) {}))
	expect(t, "refused", p, closed(t))
	p.Send = "web\n"
	expect(t, "ok", p, serve(t, says("ready\n")))
	expect(t, "malformed: xxxx...", p, serve(t, endless("", "x")))
	p.Timeout = short
	expect(t, "timeout: answer", p, serve(t, hangs))
	expect(t, "timeout: answer", p, serve(t, drips("up ")))
}

func TestJudgeAgent(t *testing.T) {
	for line, want := range map[string]Result{
		"up":                           {Outcome: OK},
		"ready 75%":                    {Outcome: OK, Verdict: Ready, Percent: 75, HasPercent: true},
		"0%,drain":                     {Outcome: OK, Verdict: Drain, HasPercent: true},
		"MAINT\tmaxconn:30":            {Outcome: OK, Verdict: Maint},
		"down#disk full":               {Outcome: Agent, Detail: "down disk full"},
		"stopped":                      {Outcome: Agent, Detail: "stopped"},
		"failed  50% # up":             {Outcome: Agent, Detail: "failed  up", Percent: 50, HasPercent: true},
		"9999% up":                     {Outcome: OK, Percent: maxPercent, HasPercent: true},
		"99999999999999999999% up":     {Outcome: OK},
		"-5% up":                       {Outcome: OK},
		"what up":                      {Outcome: OK},
		"HTTP/1.1 400 Bad\x00":         {Outcome: Malformed, Detail: "HTTP/1.1 400 Bad?"},
		"":                             {Outcome: Malformed},
		"#up":                          {Outcome: Malformed, Detail: "#up"},
		strings.Repeat("y", maxAnswer): {Outcome: Malformed, Detail: strings.Repeat("y", maxDetail)},
	} {
		if got := judgeAgent(line); got != want {
			t.Errorf("judgeAgent(%.20q) = %+v, want %+v", line, got, want)
		}
	}
}

func FuzzAgent(f *testing.F) {
	f.Add("up 75%,drain#x\n", 3)
	f.Fuzz(func(t *testing.T, text string, size int) {
		line, err := readLine(&pieces{text, max(1, size)})
		if (err != nil) != (text == "") || len(line) > maxAnswer || strings.ContainsAny(string(line), "\r\n") {
			t.Fatalf("%q, %v", line, err)
		}
		r := judgeAgent(string(line))
		if r.Outcome == Void || r.Percent < 0 || r.Percent > maxPercent || len(r.Detail) > maxDetail {
			t.Errorf("%+v", r)
		}
	})
}
