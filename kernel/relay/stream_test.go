package relay

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

func TestTCP(t *testing.T) {
	families(t, func(t *testing.T, f kernel.Family) {
		r := newRelay(t, Options{})
		v, at := virtual(t, kernel.TCP, f, "rr"), named(t, f)
		serve(t, r, v, at)
		real := target(v, at, 1)
		c := dial(t, v.Key.AddrPort())
		if got := who(t, c); got != at {
			t.Errorf("%v answers, want %v", got, at)
		}
		say(t, c, "hello")
		if got := conns(r, real); got != (kernel.Conns{Active: 1}) {
			t.Errorf("connected: %+v", got)
		}
		// Bytes count at once, not when the connection ends.
		name := uint64(len(at.String()) + 1)
		want := kernel.Traffic{Conns: 1, InBytes: 5, OutBytes: name + 5}
		eventually(t, "counted", func() bool { return r.Counters().Total == want })
		counters := r.Counters()
		if len(counters.Virtuals) != 1 || counters.Virtuals[0].Traffic != want || len(counters.Reals) != 1 || counters.Reals[0].Active != 1 {
			t.Errorf("%+v", counters)
		}
		if all := r.Traffic([]kernel.VirtualKey{v.Key, {}}); len(all) != 1 || all[0].Traffic != want || all[0].Key != real.Key {
			t.Errorf("%+v", all)
		}
		c.Close()
		eventually(t, "ended", func() bool { return conns(r, real) == kernel.Conns{} })
	})
}

// After each end of a half-closed connection the other way goes on.
func TestHalfClose(t *testing.T) {
	families(t, func(t *testing.T, f kernel.Family) {
		r := newRelay(t, Options{})
		v := virtual(t, kernel.TCP, f, "rr")
		answers := backend(t, f, func(c *net.TCPConn) { // reads all, then answers
			b, _ := io.ReadAll(c)
			fmt.Fprintf(c, "%d bytes", len(b))
		})
		serve(t, r, v, answers)
		c := dial(t, v.Key.AddrPort())
		c.Write(make([]byte, 100_000))
		c.CloseWrite()
		if b, err := io.ReadAll(c); string(b) != "100000 bytes" || err != nil {
			t.Errorf("%q, %v", b, err)
		}

		got := make(chan string)
		listens := backend(t, f, func(c *net.TCPConn) { // ends its side, then reads all
			c.CloseWrite()
			b, _ := io.ReadAll(c)
			got <- string(b)
		})
		apply(t, r, remove(target(v, answers, 1)), add(target(v, listens, 1)))
		c = dial(t, v.Key.AddrPort())
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		eventually(t, "counted as inactive", func() bool { return conns(r, target(v, listens, 1)) == kernel.Conns{Inactive: 1} })
		c.Write([]byte("still here"))
		c.CloseWrite()
		if b := <-got; b != "still here" {
			t.Errorf("%q", b)
		}
	})
}

// A half-closed connection ends when it has had no data for a time, and not before.
func TestHalfOpenGuard(t *testing.T) {
	r := newRelay(t, Options{})
	r.limits.halfOpen = 5 * time.Second
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	feed := make(chan string)
	end := sync.OnceFunc(func() { close(feed) })
	defer end()
	at := backend(t, kernel.IPv4, func(c *net.TCPConn) {
		for s := range feed {
			io.WriteString(c, s)
		}
		io.Copy(io.Discard, c) // never ends its side
		<-t.Context().Done()
	})
	serve(t, r, v, at)
	c := dial(t, v.Key.AddrPort())
	c.CloseWrite()
	begin := time.Now()
	for i := 0; time.Since(begin) < 3*r.limits.halfOpen/2; i++ { // data keeps it
		feed <- "x"
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatalf("after %d bytes and %v: %v", i, time.Since(begin), err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	end()
	wantReset(t, c)
}

// A reset of one side is a reset for the other, not an end.
func TestReset(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	got := make(chan error, 1)
	at := backend(t, kernel.IPv4, func(c *net.TCPConn) {
		b := make([]byte, 1)
		c.Read(b)
		if b[0] == 'r' {
			c.SetLinger(0)
			return
		}
		_, err := io.Copy(io.Discard, c)
		got <- err
	})
	serve(t, r, v, at)
	c := dial(t, v.Key.AddrPort())
	c.Write([]byte("r"))
	wantReset(t, c)
	c = dial(t, v.Key.AddrPort())
	c.Write([]byte("w"))
	eventually(t, "counted", func() bool { return r.Counters().Total.InBytes == 2 })
	reset(c)
	if err := <-got; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
}

// The kernel reports a reset once. If the way there has noticed it, the way back reads an end, which
// must not become one for the client: it would take half an answer for a whole one.
func TestResetIsNoEnd(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	at := backend(t, kernel.IPv4, func(c *net.TCPConn) {
		c.Read(make([]byte, 1))
		io.WriteString(c, "half an answer")
		c.SetLinger(0)
	})
	serve(t, r, v, at)
	for range 100 {
		c := dial(t, v.Key.AddrPort())
		go func() {
			for b := make([]byte, 10_000); ; {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}()
		_, err := io.Copy(io.Discard, struct{ io.Reader }{c})
		// The writer may have been told of the reset, and then this is no error. But the connection is
		// closed, not half closed.
		if err == nil && !isClosed(c) {
			t.Error("the connection ends without a reset")
		}
		c.Close()
	}
}

// A server that answers early and closes is heard, though the client still sends.
func TestEarlyAnswer(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	at := backend(t, kernel.IPv4, func(c *net.TCPConn) {
		c.Read(make([]byte, 1))
		io.WriteString(c, "too large")
		c.CloseWrite()
		io.CopyN(io.Discard, c, 1<<20)
	})
	serve(t, r, v, at)
	c := dial(t, v.Key.AddrPort())
	go func() {
		for b := make([]byte, 1<<16); ; {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}()
	b := make([]byte, 9)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "too large" {
		t.Errorf("%q, %v", b, err)
	}
}

// Whatever a client sends arrives, through pipes and through buffers.
func TestContent(t *testing.T) {
	for _, how := range []string{"pipes", "buffers"} {
		t.Run(how, func(t *testing.T) {
			r := newRelay(t, Options{})
			if how == "buffers" {
				r.pipes.disable()
			}
			v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
			serve(t, r, v, backend(t, kernel.IPv4, echo))
			var all sync.WaitGroup
			for i := range 4 {
				c := dial(t, v.Key.AddrPort())
				all.Go(func() {
					random := rand.New(rand.NewPCG(1, uint64(i)))
					sent, got := sha256.New(), sha256.New()
					all.Go(func() {
						b := make([]byte, 1<<18)
						for n := 0; n < 2<<20; {
							part := b[:1+random.IntN(len(b))]
							for i := range part {
								part[i] = byte(n + i*7)
							}
							sent.Write(part)
							if _, err := c.Write(part); err != nil {
								t.Error(err)
								return
							}
							n += len(part)
						}
						c.CloseWrite()
					})
					if _, err := io.Copy(got, c); err != nil {
						t.Error(err)
					}
					if !bytes.Equal(got.Sum(nil), sent.Sum(nil)) {
						t.Error("the content has changed")
					}
				})
			}
			all.Wait()
			total := r.Counters().Total
			if total.InBytes != total.OutBytes || total.InBytes < 8<<20 {
				t.Errorf("%+v", total)
			}
		})
	}
}

// Receivers that take nothing hold pipes, of which there is a limit; other connections go on.
func TestStalledReceivers(t *testing.T) {
	r := newRelay(t, Options{})
	r.pipes.left.Store(4)
	defer r.pipes.left.Store(int64(maxPipes(r.o.MaxFiles)))
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	serve(t, r, v, backend(t, kernel.IPv4, echo))
	for range 8 {
		c := dial(t, v.Key.AddrPort())
		c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		for b := make([]byte, 1<<20); ; { // reads nothing, so that all buffers on the way fill up
			if _, err := c.Write(b); err != nil {
				break
			}
		}
	}
	say(t, dial(t, v.Key.AddrPort()), "hello")
	r.Close()
}
