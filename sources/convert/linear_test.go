package convert

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nth is one of many addresses.
func nth(n int) string { return fmt.Sprintf("10.%d.%d.%d", 100+n>>16, n>>8&255, n&255) }

func repeat(n int, format string, more ...any) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, append([]any{nth(i + 1)}, more...)...)
	}
	return b.String()
}

// TestLinear imports n and 5 n addresses in all the ways in which a configuration has many. What takes 5 times as long is
// linear, and what takes 25 times as long is not. It is the time of this process, not of the clock, and one of three tries
// is enough.
func TestLinear(t *testing.T) {
	const n = 1000
	const check = "TCP_CHECK {\n}\n"
	for name, c := range map[string]struct {
		format Format
		text   func(n int) string
	}{
		"one bind": {HAProxy, func(n int) string {
			return "listen web\n bind " + strings.TrimSuffix(repeat(n, "%s:80,"), ",") + "\n server a 10.2.1.10:80 check\n"
		}},
		"many binds": {HAProxy, func(n int) string {
			return "listen web\n" + repeat(n, " bind %s:80\n") + " server a 10.2.1.10:80 check\n"
		}},
		"many listens": {HAProxy, func(n int) string {
			return repeat(n, "listen a%[1]s\n bind %[1]s:80\n server a 10.2.1.10:80 check port 1 cookie x\n option httpchk GET /\n strange\n")
		}},
		"many servers": {HAProxy, func(n int) string {
			return "listen web\n bind 203.0.113.1:80\n" + repeat(n, " server a %s:80 check cookie x\n")
		}},
		"a group":               {Keepalived, func(n int) string { return groupOf(n, 1) }},
		"a group, used 5 times": {Keepalived, func(n int) string { return groupOf(n/5, 5) }},
		"real servers": {Keepalived, func(n int) string {
			return "virtual_server 203.0.113.1 80 {\nprotocol TCP\n" + repeat(n, "real_server %s 80 {\n"+check+"}\n") + "}\n"
		}},
		"real servers that differ": {Keepalived, func(n int) string {
			return "virtual_server 203.0.113.1 80 {\nprotocol TCP\n" + repeat(n, "real_server %[1]s 80 {\nHTTP_GET {\nurl {\npath /%[1]s\n}\n}\n}\n") + "}\n"
		}},
		"ports of an address": {IPVSAdm, func(n int) string {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, "-A -t 203.0.113.1:%d -s rr\n-a -t 203.0.113.1:%[1]d -r %s:%[1]d -m\n", i+1, nth(i/2))
			}
			return b.String()
		}},
		"virtual servers": {IPVSAdm, func(n int) string { return repeat(n, "-A -t %[1]s:80 -s rr\n-a -t %[1]s:80 -r 10.2.1.10:80 -m\n") }},
		"marks":           {IPVSAdm, func(n int) string { return marks(n) }},
		"virtuals": {LDirectord, func(n int) string {
			return repeat(n, "virtual=%s:80\n\treal=10.2.1.10:80 masq 1 \"a\", \"b\"\n\tservice=http\n")
		}},
		"bad hosts": {Keepalived, func(n int) string {
			return repeat(n, "virtual_server %[1]s 80 {\nprotocol TCP\nvirtualhost \"a b %[1]s\"\nreal_server 10.2.1.10 80 {\nHTTP_GET {\nurl {\npath /\n}\n}\n}\n}\n")
		}},
		"Services": {Kubernetes, func(n int) string {
			return repeat(n, "---\napiVersion: v1\nkind: Service\nmetadata: {name: \"s%[1]s\"}\nspec: {clusterIP: %[1]s, ports: [{port: 80}]}\n")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			few, many := c.text(n), c.text(5*n)
			var ratio float64
			for range 3 {
				if ratio = float64(cpu(t, c.format, many)) / float64(cpu(t, c.format, few)); ratio < 12 {
					return
				}
			}
			t.Errorf("5 times as many take %.1f times as long", ratio)
		})
	}
}

func groupOf(n, times int) string {
	var b strings.Builder
	b.WriteString("virtual_server_group g {\n" + repeat(n, "%s 80\n") + "}\n")
	for i := range times {
		fmt.Fprintf(&b, "virtual_server group g {\nprotocol TCP\nreal_server 10.2.1.%d 80 {\n}\n}\n", i+1)
	}
	return b.String()
}

func marks(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "-A -f %d -s rr\n-a -f %[1]d -r 10.2.1.10:80 -m\n", i+1)
	}
	return b.String()
}

// cpu returns the time of this process that an import and its services file take.
func cpu(t *testing.T, format Format, text string) time.Duration {
	t.Helper()
	before := used(t)
	r, err := Read(format, File{Name: "f", Data: []byte(text)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Document()
	return max(used(t)-before, time.Millisecond)
}

func used(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano())
}
