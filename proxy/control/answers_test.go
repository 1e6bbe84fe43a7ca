package control_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// Large answers are made two at a time, also if the server has closed the connections of their clients. Events, reloads
// and orders do not wait for them.
func TestLargeAnswersAreBounded(t *testing.T) {
	var now, most atomic.Int32
	begun, release := make(chan struct{}, 1000), make(chan struct{})
	large := func() {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		begun <- struct{}{}
		<-release
	}
	ring := new(events.Ring)
	ring.Add(events.Event{Text: "one"})
	c, _ := serving(t, &control.Server{
		Status:  func(context.Context) status.Status { large(); return status.Status{} },
		Health:  func(context.Context, []string) status.Status { large(); return status.Status{} },
		Table:   func(string) control.Table { large(); return control.Table{} },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { large(); io.WriteString(w, "metric 1\n") }),
		Reload:  func(context.Context) (control.Reloaded, error) { return control.Nothing(), nil },
		Orders:  noOrders{},
		Places:  func(health.Selector) []health.Place { return nil },
		Applied: func(context.Context, []health.Place) error { return nil },
		Events:  ring,
	})
	for i := range 100 {
		conn, err := net.Dial("unix", c.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		path := []string{"status", "health", "table", "metrics"}[i%4]
		fmt.Fprintf(conn, "GET /v1/%s HTTP/1.1\r\nHost: svcproxy\r\n\r\n", path)
	}
	<-begun
	<-begun
	if _, err := c.Reload(t.Context(), true); err != nil {
		t.Errorf("reload: %v", err)
	}
	if err := c.Events(t.Context(), 0, false, func(events.Event) error { return nil }); err != nil {
		t.Errorf("events: %v", err)
	}
	target, err := control.ParseTarget("10.2.0.1", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Order(t.Context(), control.Order{Verb: control.Drain, Target: target}); err != nil {
		t.Errorf("order: %v", err)
	}
	close(release)
	if text, err := c.Metrics(t.Context()); err != nil || text != "metric 1\n" {
		t.Errorf("who waits for a turn: %q, %v", text, err)
	}
	if most.Load() != 2 {
		t.Errorf("%d answers at the same time, want 2", most.Load())
	}
}

// A client that does not read its answer does not keep others from theirs.
func TestUnreadAnswersDelayNoOther(t *testing.T) {
	made := make(chan struct{}, 100)
	c, _ := serving(t, &control.Server{Status: func(context.Context) status.Status {
		made <- struct{}{}
		return status.Status{Problems: []string{strings.Repeat("x", 4<<20)}} // more than the sockets' buffers hold
	}})
	for range 5 {
		conn, err := net.Dial("unix", c.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET /v1/status HTTP/1.1\r\nHost: svcproxy\r\n\r\n")
		<-made
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if st, err := c.Status(ctx, true); err != nil || len(st.Problems) != 1 {
		t.Errorf("%d problems, %v", len(st.Problems), err)
	}
}

// noOrders takes every order and keeps none.
type noOrders struct{}

func (noOrders) Order(health.Override, bool) error                   { return nil }
func (noOrders) TakeBack(health.Selector, bool, health.Author) error { return nil }
func (noOrders) Overrides() health.Overrides                         { return health.Overrides{} }
