package probe

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/svcproxy/svcproxy/sources"
)

// serveUDP runs a server that calls answer for each datagram and sends what it returns.
func serveUDP(t testing.TB, answer func([]byte) [][]byte) netip.AddrPort {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			for _, b := range answer(buf[:n]) {
				c.WriteTo(b, from)
			}
		}
	}()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

func closedUDP(t testing.TB) netip.AddrPort {
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

func TestUDP(t *testing.T) {
	got := make(chan string, 1)
	silent := serveUDP(t, func(b []byte) [][]byte { got <- string(b); return nil })
	echo := serveUDP(t, func(b []byte) [][]byte { return [][]byte{b} })
	big := serveUDP(t, func([]byte) [][]byte { return [][]byte{bytes.Repeat([]byte("x"), 65000)} })

	p := sources.Probe{Type: sources.CheckUDP, Timeout: short}
	expect(t, "ok: no answer", p, silent)
	if text := <-got; text != "" {
		t.Errorf("sent %q", text)
	}
	expect(t, "refused", p, closedUDP(t))
	p.Send, p.Expect = "hello\x00", "lo\x00"
	expect(t, "timeout: answer", p, silent)
	p.Timeout = 0
	expect(t, "ok", p, echo)
	expect(t, "answer", p, big)
	p.Expect = "other"
	expect(t, "answer", p, echo)
	p.Send, p.Expect = "", ""
	expect(t, "ok", p, echo) // an empty datagram is an answer
	expect(t, "ok", p, big)
}

// dnsServer answers queries by change, which gets an answer of NOERROR with one A record.
func dnsServer(t testing.TB, change func(*dnsmessage.Message)) netip.AddrPort {
	return serveUDP(t, func(b []byte) [][]byte {
		var m dnsmessage.Message
		if err := m.Unpack(b); err != nil {
			t.Error(err)
			return nil
		}
		m.Response = true
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
			Body:   &dnsmessage.AResource{A: [4]byte{192, 0, 2, 7}},
		}}
		change(&m)
		b, err := m.Pack()
		if err != nil {
			t.Error(err)
		}
		return [][]byte{b}
	})
}

func TestDNS(t *testing.T) {
	p := sources.Probe{Type: sources.CheckDNS, Query: "Example.org"}
	code := func(c dnsmessage.RCode) netip.AddrPort {
		return dnsServer(t, func(m *dnsmessage.Message) { m.RCode, m.Answers = c, nil })
	}
	good := dnsServer(t, func(*dnsmessage.Message) {})
	expect(t, "ok", p, good)
	expect(t, "ok: NXDOMAIN", p, code(dnsmessage.RCodeNameError))
	expect(t, "dns SERVFAIL", p, code(dnsmessage.RCodeServerFailure))
	expect(t, "dns REFUSED", p, code(dnsmessage.RCodeRefused))
	expect(t, "ok", sources.Probe{Type: sources.CheckDNS, RecordType: "soa"}, good)
	expect(t, "refused", p, closedUDP(t))
	expect(t, "void: unknown record type \"X\"", sources.Probe{Type: sources.CheckDNS, RecordType: "X"}, good)
	p.Expect = "192.0.2.7"
	expect(t, "ok", p, good)
	expect(t, "answer: NXDOMAIN", p, code(dnsmessage.RCodeNameError))
	p.Expect = "192.0.2.8"
	expect(t, "answer", p, good)
}

func TestHostileDNS(t *testing.T) {
	p := sources.Probe{Type: sources.CheckDNS, Query: "example.org", Expect: "192.0.2.7"}
	lost := p
	lost.Timeout = short
	expect(t, "timeout: answer", lost, dnsServer(t, func(m *dnsmessage.Message) { m.ID++ }))
	expect(t, "timeout: answer", lost, dnsServer(t, func(m *dnsmessage.Message) { m.Response = false }))
	expect(t, "timeout: answer", lost, dnsServer(t, func(m *dnsmessage.Message) { m.Questions[0].Name = dnsmessage.MustNewName("a.") }))
	expect(t, "malformed...", p, serveUDP(t, func([]byte) [][]byte { return [][]byte{{1}} }))
	// 64 KiB, of which 4 KiB are read: the 1000 records that the header announces are cut off.
	expect(t, "malformed...", p, dnsServer(t, func(m *dnsmessage.Message) {
		m.Answers[0].Body = &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}}
		m.Answers[0].Body = &dnsmessage.TXTResource{TXT: []string{string(bytes.Repeat([]byte("x"), 250))}}
		m.Answers[0].Header.Type = dnsmessage.TypeTXT
		for len(m.Answers) < 240 {
			m.Answers = append(m.Answers, m.Answers[0])
		}
	}))
	// A name that points to itself.
	loop := func(b []byte) [][]byte {
		b[2] |= 0x80
		b[12], b[13] = 0xc0, 12
		return [][]byte{b}
	}
	expect(t, "malformed...", p, serveUDP(t, loop))
	// A flood of answers to other questions, then silence.
	flood := func(b []byte) [][]byte {
		b[0]++
		b[2] |= 0x80
		all := make([][]byte, 200)
		for i := range all {
			all[i] = b
		}
		return all
	}
	expect(t, "timeout: answer", lost, serveUDP(t, flood))
}

func FuzzDNSAnswer(f *testing.F) {
	query, asked, err := dnsQuery(7, "example.org", "A")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(query, "")
	answer := bytes.Clone(query)
	answer[2] |= 0x80
	f.Add(answer, "192")
	answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 7)
	answer[7] = 1
	f.Add(answer, "192.0.2.7")
	f.Fuzz(func(t *testing.T, datagram []byte, expect string) {
		r, ours := judgeDNS(datagram, 7, asked, expect)
		if ours && r.Outcome == Void || !ours && r.Outcome != Void {
			t.Errorf("%v %v", r, ours)
		}
	})
}

func TestPing(t *testing.T) {
	p := sources.Probe{Type: sources.CheckPing}
	for _, address := range []string{"127.0.0.1", "127.9.8.7", "::1"} {
		r := do(t, p, netip.AddrPortFrom(netip.MustParseAddr(address), 80))
		if r.Outcome == Void || r.Outcome == Unreachable && address == "::1" {
			t.Log("not tested: ", r)
		} else if r.Outcome != OK {
			t.Errorf("%s: %v", address, r)
		}
	}
}

func TestEcho(t *testing.T) {
	request := echo(echoRequest, 0x12345678, 42)
	if checksum(request) != 0 {
		t.Errorf("the checksum is wrong: %x", request)
	}
	want := bytes.Clone(request)
	want[0] = echoReply
	reply := bytes.Clone(want)
	reply[2], reply[4] = 9, 9 // checksum and identifier
	header := append([]byte{0x46}, make([]byte, 23)...)
	for _, test := range []struct {
		name     string
		datagram []byte
		raw, is  bool
	}{
		{"reply", reply, false, true},
		{"request", request, false, false},
		{"reply with options", append(header, reply...), true, true},
		{"raw without header", reply, true, false},
		{"header alone", header, true, false},
		{"half a header", header[:21], true, false},
		{"empty", nil, true, false},
	} {
		if got := isEcho(test.datagram, want, test.raw); got != test.is {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func FuzzEcho(f *testing.F) {
	f.Add([]byte{0x45, 0}, true)
	want := echo(echoReply, 1, 2)
	f.Add(want, false)
	f.Fuzz(func(t *testing.T, datagram []byte, raw bool) {
		if isEcho(datagram, want, raw) && !bytes.Contains(datagram, want[6:]) {
			t.Errorf("%x", datagram)
		}
	})
}

func TestNoDescriptorIsVoid(t *testing.T) {
	tcp, udp := serve(t, hangs), closedUDP(t)
	noDescriptors(t)
	start := time.Now()
	expect(t, "void: socket: too many open files", sources.Probe{Type: sources.CheckTCP}, tcp)
	expect(t, "void: socket: too many open files", sources.Probe{Type: sources.CheckUDP}, udp)
	expect(t, "void...", sources.Probe{Type: sources.CheckPing}, udp)
	if r := do(t, sources.Probe{Type: sources.CheckExec, Command: "/bin/true"}, tcp); r.Outcome != Void {
		t.Errorf("exec: %v", r)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
}
