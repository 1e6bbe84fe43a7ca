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
	expect(t, "ok", p, serve(t, func(c net.Conn) { c.Write([]byte("75% ready\r\n")) }))
	expect(t, "ok: ignored: no end of the line", p, serve(t, func(c net.Conn) { c.Write([]byte("down")) }))
	expect(t, "closed: answer", p, serve(t, func(net.Conn) {}))
	expect(t, "refused", p, closed(t))
	p.Send = "web\n"
	expect(t, "ok", p, serve(t, says("ready\n")))
	expect(t, "ok: ignored: no end of the line", p, serve(t, endless("", "x")))
	p.Timeout = short
	expect(t, "timeout: answer", p, serve(t, hangs))
	expect(t, "timeout: answer", p, serve(t, drips("up ")))
}

func TestJudgeAgent(t *testing.T) {
	for line, want := range map[string]Result{
		"up":                       {Outcome: OK, Speaks: true},
		"ready 75%":                {Outcome: OK, Verdict: Ready, Percent: 75, HasPercent: true},
		"0%,drain":                 {Outcome: OK, Verdict: Drain, HasPercent: true},
		"MAINT\tmaxconn:30":        {Outcome: OK, Verdict: Maint},
		"ready,fail":               {Outcome: Agent, Speaks: true, Detail: "fail", Verdict: Ready},
		"down up":                  {Outcome: OK, Speaks: true},
		"Stopped":                  {Outcome: Agent, Speaks: true, Detail: "stopped"},
		"down #disk full":          {Outcome: Agent, Speaks: true, Detail: "down disk full"},
		"fail  50% # up":           {Outcome: Agent, Speaks: true, Detail: "fail up", Percent: 50, HasPercent: true},
		"down#disk full":           {Outcome: OK, Detail: "unknown word down#disk"},
		"9999% up":                 {Outcome: OK, Speaks: true, Percent: 9999, HasPercent: true},
		"99999999999999999999% up": {Outcome: OK, Speaks: true, Percent: maxPercent, HasPercent: true},
		"30% 5.5% up":              {Outcome: OK, Speaks: true, Detail: "unknown word 5.5%"},
		"failed":                   {Outcome: OK, Detail: "unknown word failed"},
		"HTTP/1.1 400 Bad":         {Outcome: OK, Detail: "unknown word HTTP/1.1"},
		"":                         {Outcome: OK},
		"#up":                      {Outcome: OK},
		strings.Repeat("y", 4096):  {Outcome: OK, Detail: ("unknown word " + strings.Repeat("y", maxDetail))[:maxDetail]},
	} {
		if got := judgeAgent(line); got != want {
			t.Errorf("judgeAgent(%.20q) = %+v, want %+v", line, got, want)
		}
	}
}

func FuzzAgent(f *testing.F) {
	f.Add("up 75%,drain#x\n", 3)
	f.Fuzz(func(t *testing.T, text string, size int) {
		line, _, err := readLine(&pieces{text, max(1, size)})
		if (err != nil) != (text == "") || len(line) > maxLine || strings.ContainsAny(string(line), "\r\n\x00") {
			t.Fatalf("%q, %v", line, err)
		}
		r := judgeAgent(string(line))
		if r.Outcome != OK && r.Outcome != Agent || r.Percent < 0 || r.Percent > maxPercent || len(r.Detail) > maxDetail {
			t.Errorf("%+v", r)
		}
	})
}
