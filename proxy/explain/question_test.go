package explain_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/explain"
)

// A question is the same after its way through a URL.
func TestQuestionValues(t *testing.T) {
	to := netip.MustParseAddrPort("[fd00:96::20]:53")
	for _, q := range []explain.Question{
		{Service: "default/web"},
		{Proto: kernel.UDP, To: to},
		{Proto: kernel.TCP, To: to, From: "[fd00::9]:40000", In: "eth0", Conn: true, Mark: 7},
	} {
		if got, err := explain.ParseQuestion(q.Values()); err != nil || got != q {
			t.Errorf("%+v becomes %+v, %v", q, got, err)
		}
	}
	for _, bad := range []string{"to", "proto"} {
		v := explain.Question{Proto: kernel.TCP, To: to}.Values()
		v.Set(bad, "x")
		if _, err := explain.ParseQuestion(v); err == nil {
			t.Errorf("%s=x: no error", bad)
		}
	}
	for _, proto := range []string{"fwmark", "255"} { // as tables have it: no packet does
		if p, err := explain.ParseProto(proto); err == nil || !strings.Contains(err.Error(), "--mark") {
			t.Errorf("%s is %v, %v", proto, p, err)
		}
	}
}

// A connection that exists is where the kernel has it, whatever becomes of new ones.
func TestConnection(t *testing.T) {
	f := factsOf(t, []string{"trace-external", "ipvs"})
	at := netip.MustParseAddrPort
	q := explain.Question{Proto: kernel.TCP, To: at("198.51.100.80:80"), From: "192.0.2.9:40000", In: "eth0", Conn: true}
	for _, c := range []struct {
		have kernel.Connection
		want string
		fate explain.Fate
	}{
		{kernel.Connection{}, "served by ", explain.Served},
		{kernel.Connection{Replies: q.To, To: at("192.0.2.9:40000")}, "served by ", explain.Served},
		{kernel.Connection{Real: at("10.2.1.10:80"), State: "ESTABLISHED", Expires: 9}, "the connection is at 10.2.1.10:80; a new one: served by ", explain.Served},
		{kernel.Connection{Replies: at("10.9.9.9:80")}, "the connection is at 10.9.9.9:80; ", explain.Served},
	} {
		f.Connection = func(kernel.Virtual, netip.AddrPort) (kernel.Connection, error) { return c.have, nil }
		a, err := explain.Ask(f, q)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.(explain.Answer); !strings.HasPrefix(got.Sentence, c.want) || got.Fate != c.fate {
			t.Errorf("%+v: %s\n%s", c.have, got.Fate, got)
		}
	}
	f.Connection = nil
	if _, err := explain.Ask(f, q); err == nil {
		t.Error("no error without a kernel")
	}
}

// A connection by firewall mark is at a backend of the mark's virtual server, at the port that the client chose. The kernel does
// not say which virtual server a connection came by: without --mark its backend leads to the mark.
func TestConnectionOfMark(t *testing.T) {
	f := factsOf(t, []string{"fwmark", "ipvs"})
	at := netip.MustParseAddrPort
	for _, c := range []struct {
		to, real string
		mark     uint32
		want     string
		kept     bool
	}{
		{"10.96.0.20:5000", "10.2.1.11:5000", 1, "10.2.1.11:5000 also gets new connections", false},
		{"10.96.0.20:5000", "10.2.1.12:5000", 1, "10.2.1.12:5000 is no backend of -f 1, but one of firewall mark 9: --mark 9 says what becomes of a new connection", false},
		{"10.96.0.20:5000", "10.2.9.9:5000", 1, "10.2.9.9:5000 is no backend any more: the connection ends with its entry", false},
		{"10.96.0.20:5000", "10.2.1.11:5000", 0, "10.2.1.11:5000 is no backend of -t 10.96.0.20:5000, but one of firewall mark 1: --mark 1 says what becomes of a new connection", true},
		{"10.96.0.20:80", "10.2.1.10:80", 0, "10.2.1.10:80 also gets new connections", true},
		{"10.96.0.20:80", "10.2.1.10:80", 1, "10.2.1.10:80 also gets new connections", false}, // what IPVS keeps is another virtual server's
		{"10.96.0.20:80", "10.2.1.10:80", 8, "10.2.1.10:80 also gets new connections", true},  // no virtual server has the mark
	} {
		f.Connection = func(v kernel.Virtual, _ netip.AddrPort) (kernel.Connection, error) {
			if want := kernel.VirtualAt(at(c.to), kernel.TCP); v.Key != want {
				t.Errorf("asked for a connection to %s, want %s: entries of connections have no mark", v.Key, want)
			}
			return kernel.Connection{Real: at(c.real), State: "ESTABLISHED", Expires: 9, Kept: at("10.2.1.10:80"), KeptFor: 40}, nil
		}
		a, err := explain.Ask(f, explain.Question{Proto: kernel.TCP, To: at(c.to), From: "192.0.2.9:40000", In: "eth0", Conn: true, Mark: c.mark})
		if err != nil {
			t.Fatal(err)
		}
		if got := a.String(); !strings.Contains(got, "conn      "+c.want+"\n") || strings.Contains(got, "IPVS keeps the client") != c.kept {
			t.Errorf("%s, mark %d, at %s:\n%swant %q, kept %t", c.to, c.mark, c.real, got, c.want, c.kept)
		}
	}
}
