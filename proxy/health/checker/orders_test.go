package checker

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/sources"
)

func order(t *testing.T, verb health.Verb, target string) health.Override {
	t.Helper()
	s, err := health.ParseSelector(target)
	if err != nil {
		t.Fatal(err)
	}
	return health.Override{Selector: s, Verb: verb, Made: time.Now(), By: "root", Why: "kernel upgrade"}
}

// noted waits for so many events about orders.
func (r *rig) noted(n int) []string {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		var texts []string
		for _, e := range r.events {
			if e.Kind.OfOrder() {
				texts = append(texts, e.String())
			}
		}
		r.mu.Unlock()
		if len(texts) >= n {
			return texts
		}
		if time.Now().After(end) {
			r.t.Fatalf("events %q, want %d", texts, n)
		}
	}
}

// An order takes endpoints out, is kept over a restart, refuses the last endpoint and can be taken back.
func TestOrders(t *testing.T) {
	a, b := newServer(t), newServer(t)
	r := run(t, table(nil, a, b))
	r.await(1, 1)
	if err := r.Order(order(t, health.Drain, a.addr.String()), false); err != nil {
		t.Fatal(err)
	}
	r.await(0, 1)
	last := order(t, health.Drain, b.addr.String())
	if err := r.Order(last, false); !errors.Is(err, health.ErrLast) {
		t.Errorf("the last one: %v", err)
	}
	if err := r.Order(order(t, health.Drain, "192.0.2.9"), false); !errors.Is(err, health.ErrNone) {
		t.Errorf("one that is for no endpoint: %v", err)
	}
	path := filepath.Join(r.StateDir, ordersFile)
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", st.Mode(), err)
	}
	again, err := New(r.Options)
	if err != nil {
		t.Fatal(err)
	}
	if m, _ := again.Overlay(sources.Merged{Table: r.table}, &kernel.Observed{}); m.Services.At(0).Endpoints[0].Weight != 0 {
		t.Error("the order does not stand after a restart")
	}
	if err := r.Order(last, true); err != nil {
		t.Fatal(err)
	}
	r.await(0, 0)
	by := health.Author{By: "ann", UID: 1000, Why: "done"}
	for _, s := range []*server{a, b} {
		if err := r.TakeBack(order(t, health.Drain, s.addr.String()).Selector, true, by); err != nil {
			t.Fatal(err)
		}
	}
	r.await(1, 1)
	if err := r.TakeBack(last.Selector, true, by); err == nil || !strings.Contains(err.Error(), "is not drained") {
		t.Errorf("taken back twice: %v", err)
	}
	want := []string{
		"order drain " + a.addr.String() + ` by root (uid 0): "kernel upgrade"`, "order drain " + b.addr.String() + ` by root (uid 0): "kernel upgrade"`,
		"order-taken-back drain " + a.addr.String() + ` by ann (uid 1000): "done"`, "order-taken-back drain " + b.addr.String() + ` by ann (uid 1000): "done"`,
	}
	if got := r.noted(4); !slices.Equal(got, want) {
		t.Errorf("events %q\nwant %q", got, want)
	}
}

// An order ends at its time, and after 24 hours without an endpoint.
func TestOrdersEnd(t *testing.T) {
	a, b := newServer(t), newServer(t)
	r := run(t, table(nil, a, b))
	r.await(1, 1)
	brief, lost := order(t, health.Drain, a.addr.String()), order(t, health.Drain, "192.0.2.1")
	brief.Until = brief.Made.Add(time.Hour)
	lost.Unmatched = time.Now().Add(-25 * time.Hour)
	for _, o := range []health.Override{brief, lost, order(t, health.Drain, "192.0.2.2")} {
		if err := r.Order(o, true); err != nil {
			t.Fatal(err)
		}
	}
	r.pruneOrders(time.Now())
	if got := r.Overrides(); len(got) != 2 || got[1].Unmatched.IsZero() {
		t.Errorf("after 25 hours: %v", got)
	}
	r.pruneOrders(time.Now().Add(61 * time.Minute))
	if got := r.Overrides(); len(got) != 1 {
		t.Errorf("after the time: %v", got)
	}
	kept, err := ReadOrders(r.StateDir)
	if err != nil || len(kept) != 1 || kept[0].Unmatched.IsZero() {
		t.Errorf("the file has %v, %v", kept, err)
	}
	if got := r.noted(5)[3:]; !strings.HasSuffix(got[0], "for 24 hours") || !strings.HasSuffix(got[1], "its time is over") {
		t.Errorf("events %q", got)
	}
}

// An order without an endpoint stays while a table may be missing: its endpoint may be under repair when the source is back.
func TestOrderOutlastsSource(t *testing.T) {
	r := run(t, table(nil, newServer(t)))
	overlay := func(missing bool) {
		m := sources.Merged{Table: r.table}
		if missing {
			m.Missing = []string{"apiserver"}
		}
		r.Overlay(m, &kernel.Observed{})
	}
	overlay(true)
	brief, away, next := order(t, health.Drain, "192.0.2.1"), order(t, health.Disable, "192.0.2.2"), order(t, health.Drain, "192.0.2.3")
	brief.Until = brief.Made.Add(time.Minute)
	away.Unmatched = time.Now().Add(-25 * time.Hour)
	for _, o := range []health.Override{brief, away, next} {
		if err := r.Order(o, true); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().Add(time.Minute)
	r.pruneOrders(now)
	if got := r.Overrides(); len(got) != 2 || got[0].Selector != away.Selector || !got[1].Unmatched.IsZero() {
		t.Errorf("while a table may be missing: %v", got)
	}
	overlay(false)
	r.pruneOrders(now.Add(prunePeriod))
	if got := r.Overrides(); len(got) != 1 || got[0].Unmatched.IsZero() {
		t.Errorf("with all tables: %v", got)
	}
}

// A file that cannot be read is said and never deleted, and the orders in it that can be read count.
func TestUnreadOrders(t *testing.T) {
	good := `{"target": "192.0.2.1", "verb": "drain", "since": "2026-01-01T00:00:00Z"}`
	for _, c := range []struct {
		text string
		n    int
		bad  bool
	}{
		{`{"version": 1, "overrides": [` + good + `]}`, 1, false},
		{`{"version": 1, "overrides": [` + good + `, {"target": "192.0.2.2", "verb": "kill"}]}`, 1, true},
		{`{"version": 2, "overrides": [` + good + `]}`, 0, true},
		{"\x00{", 0, true},
		{"", 0, true},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, ordersFile)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		x, err := New(Options{StateDir: dir, Log: slog.New(slog.DiscardHandler), Wake: func() {}})
		if err != nil {
			t.Fatal(err)
		}
		if len(x.Overrides()) != c.n || (x.Unread() != nil) != c.bad {
			t.Errorf("%q: %d orders, %v", c.text, len(x.Overrides()), x.Unread())
		}
		x.Overlay(sources.Merged{Table: table(nil, newServer(t))}, &kernel.Observed{})
		x.pruneOrders(time.Now()) // notes that the order has no endpoint
		if (x.Unread() != nil) != c.bad {
			t.Errorf("%q: without a new order %v", c.text, x.Unread())
		}
		if err := x.Order(order(t, health.Drain, "192.0.2.3"), true); err != nil || x.Unread() != nil {
			t.Error(err, x.Unread())
		}
		if list, err := ReadOrders(dir); err != nil || len(list) != c.n+1 {
			t.Errorf("%q: then %v, %v", c.text, list, err)
		}
		if kept, _ := os.ReadFile(path + ".unread"); c.bad && string(kept) != c.text {
			t.Errorf("%q: kept is %q", c.text, kept)
		}
	}
}

// An order that cannot be kept is refused: it would be lost at the next start.
func TestOrderThatCannotBeKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x, err := New(Options{StateDir: file, Log: slog.New(slog.DiscardHandler), Wake: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	over := order(t, health.Drain, "192.0.2.4")
	over.Until = over.Made.Add(time.Minute)
	x.orders.Overrides, x.served.table = health.Overrides{over}, table(nil, newServer(t))
	now := over.Until.Add(time.Second)
	if x.pruneOrders(now) == nil || x.pruneOrders(now.Add(time.Second)) == nil {
		t.Error("that an order that is over stays in the file is no error")
	}
	x.orders.Overrides = nil
	if err := x.Order(order(t, health.Drain, "192.0.2.3"), true); err == nil || len(x.Overrides()) != 0 {
		t.Errorf("%v, %v", err, x.Overrides())
	}
}
