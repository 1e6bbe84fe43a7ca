package lab

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
)

// A Port is one more port of a backend. A test closes and opens it, and changes
// how it answers, while clients use it.
type Port struct {
	Number  int
	Backend *Backend

	network string // tcp or udp

	mu     sync.Mutex
	open   io.Closer // nil while it is closed
	serve  func(net.Conn)
	answer func([]byte) []byte
}

// OpenPort has the backend serve a TCP port. serve has each connection, and what
// it returns from is closed.
func (b *Backend) OpenPort(number int, serve func(net.Conn)) (*Port, error) {
	return b.newPort(&Port{Number: number, network: "tcp", serve: serve})
}

// OpenDatagrams has the backend serve a UDP port. answer returns what to send back
// for a datagram, nothing if it is empty.
func (b *Backend) OpenDatagrams(number int, answer func([]byte) []byte) (*Port, error) {
	return b.newPort(&Port{Number: number, network: "udp", answer: answer})
}

func (b *Backend) newPort(p *Port) (*Port, error) {
	p.Backend = b
	b.closers = append(b.closers, p)
	return p, p.Open()
}

// Serve has later connections served in another way. Those that are open stay as
// they are.
func (p *Port) Serve(serve func(net.Conn)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve = serve
}

// Answer has later datagrams answered in another way.
func (p *Port) Answer(answer func([]byte) []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// Open listens again. It does nothing if the port is open.
func (p *Port) Open() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open != nil {
		return nil
	}
	if p.network == "tcp" {
		l, err := p.Backend.Listen(p.Number)
		if err != nil {
			return err
		}
		p.open = l
		go p.accept(l)
		return nil
	}
	return p.Backend.Do(func() error {
		c, err := net.ListenPacket("udp", wildcard(p.Number))
		if err != nil {
			return err
		}
		p.open = c
		go p.receive(c)
		return nil
	})
}

// Close refuses what comes from now on. Open connections go on.
func (p *Port) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		return nil
	}
	err := p.open.Close()
	p.open = nil
	return err
}

// Drop has the backend's firewall drop every packet to the port, without an
// answer, or lets them through again.
func (p *Port) Drop(yes bool) error {
	verb := map[bool]string{true: "-I", false: "-D"}[yes]
	_, err := p.Backend.Run("iptables", "-w", verb, "INPUT", "-p", p.network, "--dport", strconv.Itoa(p.Number), "-j", "DROP")
	if err != nil {
		return fmt.Errorf("dropping packets to port %d: %w", p.Number, err)
	}
	return nil
}

func (p *Port) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		serve := p.serve
		p.mu.Unlock()
		go func() {
			defer c.Close()
			serve(c)
		}()
	}
}

func (p *Port) receive(c net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := c.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.mu.Lock()
		answer := p.answer
		p.mu.Unlock()
		if reply := answer(buf[:n]); len(reply) > 0 {
			c.WriteTo(reply, from)
		}
	}
}
