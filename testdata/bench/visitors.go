package main

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// How often a client opens a connection, and how long it waits for the answer.
const (
	visitEvery = 100 * time.Millisecond
	visitLimit = time.Second
)

// Visitors open a new connection to a service at a steady rate, whether or not the
// ones before were answered.
type visitors struct {
	from  *lab.Host
	to    netip.AddrPort
	stop  chan struct{}
	going sync.WaitGroup

	mu       sync.Mutex
	answered map[string][]time.Time // by backend: when connections were opened
	lost     []time.Time            // likewise
	reason   error                  // of the last lost one
}

func sendVisitors(from *lab.Host, to netip.AddrPort) *visitors {
	v := &visitors{from: from, to: to, stop: make(chan struct{}), answered: map[string][]time.Time{}}
	v.going.Go(func() {
		tick := time.NewTicker(visitEvery)
		defer tick.Stop()
		for {
			select {
			case <-v.stop:
				return
			case <-tick.C:
				v.going.Go(v.visit)
			}
		}
	})
	return v
}

func (v *visitors) visit() {
	opened := time.Now()
	backend, err := v.ask()
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil {
		v.answered[backend] = append(v.answered[backend], opened)
		return
	}
	v.lost, v.reason = append(v.lost, opened), err
}

// ask returns the name of the backend that answered a request with 200.
func (v *visitors) ask() (backend string, err error) {
	dialer := net.Dialer{Timeout: visitLimit}
	var c net.Conn
	// A dialer of a numeric address opens its socket on this thread.
	err = v.from.Do(func() (err error) { c, err = dialer.Dial("tcp", v.to.String()); return err })
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(visitLimit))
	if _, err := io.WriteString(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return "", err
	}
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	if status, _, _ := strings.Cut(head, "\r\n"); status != "HTTP/1.0 200 OK" {
		return "", fmt.Errorf("the answer is %q", status)
	}
	return body, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// losses counts the lost connections that were opened after a moment, and gives the
// reason of the last loss.
func (v *visitors) losses(after time.Time) (n int, reason error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range v.lost {
		if t.After(after) {
			n++
		}
	}
	return n, v.reason
}

// lastLoss tells when the last connection was opened that was lost.
func (v *visitors) lastLoss() (last time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range v.lost {
		last = later(last, t)
	}
	return last
}

// servedBy tells when the first connection after a moment was opened that a backend
// answered; false if there was none.
func (v *visitors) servedBy(backend string, after time.Time) (first time.Time, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range v.answered[backend] {
		if t.After(after) && (!ok || t.Before(first)) {
			first, ok = t, true
		}
	}
	return first, ok
}

func (v *visitors) end() {
	close(v.stop)
	v.going.Wait()
}
