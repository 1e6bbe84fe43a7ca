package dns

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// server answers over UDP and TCP on one port of loopback. answer returns the messages to send, of a query.
type server struct {
	addr   netip.AddrPort
	mu     sync.Mutex
	answer func(m dnsmessage.Message, tcp bool) [][]byte
	asked  int
}

func newServer(t testing.TB, answer func(m dnsmessage.Message, tcp bool) [][]byte) *server {
	s := &server{answer: answer}
	var tcp net.Listener
	var udp *net.UDPConn
	for try := 0; ; try++ { // a port that both protocols have free
		var err error
		if tcp, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		s.addr = netip.MustParseAddrPort(tcp.Addr().String())
		if udp, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(s.addr)); err == nil {
			break
		}
		if tcp.Close(); try == 10 {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { tcp.Close(); udp.Close() })
	go func() {
		b := make([]byte, 4096)
		for {
			n, from, err := udp.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			for _, m := range s.answers(b[:n], false) {
				udp.WriteToUDPAddrPort(m, from)
			}
		}
	}()
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				var size [2]byte
				if _, err := io.ReadFull(c, size[:]); err != nil {
					return
				}
				b := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(c, b); err != nil {
					return
				}
				for _, m := range s.answers(b, true) {
					c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...))
				}
			}()
		}
	}()
	return s
}

func (s *server) answers(query []byte, tcp bool) [][]byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.answer(m, tcp)
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *server) set(answer func(m dnsmessage.Message, tcp bool) [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// packed is the answer to a query with some records.
func packed(m dnsmessage.Message, code dnsmessage.RCode, records ...dnsmessage.Resource) []byte {
	m.Response, m.RCode, m.Answers, m.Additionals = true, code, records, nil
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return b
}

func name(s string) dnsmessage.Name { return dnsmessage.MustNewName(s + ".") }

func header(owner string, kind dnsmessage.Type, ttl uint32) dnsmessage.ResourceHeader {
	return dnsmessage.ResourceHeader{Name: name(owner), Type: kind, Class: dnsmessage.ClassINET, TTL: ttl}
}

func a(owner, addr string, ttl uint32) dnsmessage.Resource {
	if at := netip.MustParseAddr(addr); at.Is6() {
		return dnsmessage.Resource{Header: header(owner, dnsmessage.TypeAAAA, ttl),
			Body: &dnsmessage.AAAAResource{AAAA: at.As16()}}
	}
	return dnsmessage.Resource{Header: header(owner, dnsmessage.TypeA, ttl),
		Body: &dnsmessage.AResource{A: netip.MustParseAddr(addr).As4()}}
}

func cname(owner, to string, ttl uint32) dnsmessage.Resource {
	return dnsmessage.Resource{Header: header(owner, dnsmessage.TypeCNAME, ttl),
		Body: &dnsmessage.CNAMEResource{CNAME: name(to)}}
}

func srv(owner, to string, port, priority, weight uint16) dnsmessage.Resource {
	return dnsmessage.Resource{Header: header(owner, dnsmessage.TypeSRV, 60),
		Body: &dnsmessage.SRVResource{Target: name(to), Port: port, Priority: priority, Weight: weight}}
}

// zone answers with those of some records that are of the question's type, or CNAMEs, and NXDOMAIN for other names.
func zone(records ...dnsmessage.Resource) func(dnsmessage.Message, bool) [][]byte {
	return func(m dnsmessage.Message, tcp bool) [][]byte {
		q, known := m.Questions[0], false
		var own []dnsmessage.Resource
		for _, r := range records {
			if strings.EqualFold(r.Header.Name.String(), q.Name.String()) {
				known = true
				if r.Header.Type == q.Type || r.Header.Type == dnsmessage.TypeCNAME {
					own = append(own, r)
				}
			}
		}
		if !known {
			return [][]byte{packed(m, dnsmessage.RCodeNameError)}
		}
		b := packed(m, dnsmessage.RCodeSuccess, own...)
		if !tcp && len(b) > udpSize {
			m.Truncated = true
			b = packed(m, dnsmessage.RCodeSuccess)
		}
		return [][]byte{b}
	}
}
