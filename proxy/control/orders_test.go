package control_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/sources"
)

// ledger keeps orders, and refuses to take out 10.2.0.9.
type ledger struct {
	list health.Overrides
	last health.Author // who took an order back last
}

func (l *ledger) Order(o health.Override, force bool) (err error) {
	if o.Addr == netip.MustParseAddr("10.2.0.9") && !force {
		return fmt.Errorf("drain 10.2.0.9: %w of default/web", health.ErrLast)
	}
	l.list, err = l.list.Add(o)
	return err
}

func (l *ledger) TakeBack(s health.Selector, outs bool, by health.Author) (err error) {
	l.last = by
	l.list, err = l.list.Undo(s, outs)
	return err
}

func (l *ledger) Overrides() health.Overrides { return l.list }

func selector(t *testing.T, text string) health.Selector {
	t.Helper()
	s, err := health.ParseSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ordering(t *testing.T, l *ledger) control.Client {
	c, _ := serving(t, &control.Server{
		Orders: l,
		Places: func(s health.Selector) []health.Place {
			return []health.Place{{Service: "default/web", Protocol: sources.TCP, Addr: netip.AddrPortFrom(s.Addr, 8080)}}
		},
		Applied: func(_ context.Context, places []health.Place) error {
			if places[0].Addr.Addr() == netip.MustParseAddr("10.2.0.8") {
				return errors.New("no sync has ended since")
			}
			return nil
		},
	})
	return c
}

// An order goes to its keeper with who gave it; the answer says what it is for, and whether the kernel has it.
func TestOrder(t *testing.T) {
	var l ledger
	c := ordering(t, &l)
	done, err := c.Order(t.Context(), control.Order{Verb: control.Drain, Target: selector(t, "web/10.2.0.1"), For: time.Hour, Why: `it's "old" & 100%`})
	if err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	o := l.list[0]
	if o.Verb != health.Drain || o.Selector != selector(t, "web/10.2.0.1") || o.Until.Sub(o.Made) != time.Hour || o.Why != `it's "old" & 100%` ||
		o.By != me.Username || o.UID != uint32(os.Getuid()) || time.Since(o.Made) > time.Minute {
		t.Errorf("kept %+v", o)
	}
	if len(done.Endpoints) != 1 || done.Endpoints[0].Protocol != "tcp" || done.Pending != "" || done.Target != "default/web/10.2.0.1" || done.Until.IsZero() {
		t.Errorf("answer %+v", done)
	}
	if done, err = c.Order(t.Context(), control.Order{Verb: control.Disable, Target: selector(t, "10.2.0.8")}); err != nil || done.Pending == "" {
		t.Errorf("answer %+v, %v; want it pending", done, err)
	}
	list, err := c.Overrides(t.Context())
	if err != nil || len(list) != 2 || list[1].Why != o.Why {
		t.Errorf("listed %v, %v", list, err)
	}
	if _, err = c.Order(t.Context(), control.Order{Verb: control.Undrain, Target: selector(t, "web/10.2.0.1"), Why: "done"}); err != nil || len(l.list) != 1 {
		t.Errorf("taken back: %v, %v", l.list, err)
	}
	if l.last.By != me.Username || l.last.Why != "done" {
		t.Errorf("taken back by %+v", l.last)
	}
}

// A refusal says why, and what would help.
func TestOrderRefused(t *testing.T) {
	var l ledger
	c := ordering(t, &l)
	_, err := c.Order(t.Context(), control.Order{Verb: control.Drain, Target: selector(t, "10.2.0.9")})
	var e *cli.Error
	if !errors.As(err, &e) || e.Code != cli.Failed || !strings.Contains(e.Hint, "--force") || !strings.Contains(e.Err.Error(), "the last usable endpoint") {
		t.Errorf("the last one: %v", err)
	}
	if _, err := c.Order(t.Context(), control.Order{Verb: control.Drain, Target: selector(t, "10.2.0.9"), Force: true}); err != nil {
		t.Errorf("with force: %v", err)
	}
	if _, err := c.Order(t.Context(), control.Order{Verb: control.Undrain, Target: selector(t, "10.2.0.1")}); code(err) != cli.Failed || !strings.Contains(err.Error(), "is not drained") {
		t.Errorf("nothing to take back: %v", err)
	}
	if _, err := c.Order(t.Context(), control.Order{Verb: "kill", Target: selector(t, "10.2.0.1")}); code(err) != cli.Usage {
		t.Errorf("no such verb: %v", err)
	}
}

// An order is kept under the user at the other end of the socket, whatever the request says.
func TestOrderOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user, too")
	}
	var l ledger
	c := ordering(t, &l)
	for dir := c.Socket; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	const nobody = 65534
	asUser(t, nobody, func() {
		conn, err := net.Dial("unix", c.Socket)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "POST /v1/order?verb=drain&target=10.2.0.1 HTTP/1.0\r\nContent-Length: 0\r\n\r\n")
		if answer, err := io.ReadAll(conn); err != nil || !strings.Contains(string(answer), "200 OK") {
			t.Errorf("%v: %s", err, answer)
		}
	})
	want := strconv.Itoa(nobody)
	if u, err := user.LookupId(want); err == nil {
		want = u.Username
	}
	if len(l.list) != 1 || l.list[0].UID != nobody || l.list[0].By != want {
		t.Errorf("kept %+v, want it by %s", l.list, want)
	}
}

// Requests that are no orders are refused, and change nothing.
func TestInvalidOrders(t *testing.T) {
	var l ledger
	c := ordering(t, &l)
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.Socket)
		},
	}}
	for _, r := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/v1/order?verb=drain&target=10.2.0.1", "", http.StatusMethodNotAllowed},
		{"POST", "/v1/overrides", "", http.StatusMethodNotAllowed},
		{"POST", "/v1/order", "verb=drain&target=10.2.0.1", http.StatusRequestEntityTooLarge},
		{"POST", "/v1/order?verb=drain&target=10.2.0.1", "x", http.StatusRequestEntityTooLarge},
		{"POST", "/v1/order", "", http.StatusBadRequest},
		{"POST", "/v1/order?verb=drain;target=10.2.0.1", "", http.StatusBadRequest},
		{"POST", "/v1/order?verb=drain&target=%zz", "", http.StatusBadRequest},
		{"POST", "/v1/order?verb=drain&target=10.2.0.1&by=root", "", http.StatusBadRequest},
		{"POST", "/v1/order?verb=drain&target=" + strings.Repeat("a", 10000) + "/10.2.0.1", "", http.StatusBadRequest},
		{"POST", "/v1/order?verb=drain&target=10.2.0.1&why=" + strings.Repeat("a", 201), "", http.StatusBadRequest},
		{"POST", "/v1/order?verb=drain&target=10.2.0.1&why=" + strings.Repeat("a", 1<<16), "", http.StatusRequestHeaderFieldsTooLarge},
		{"GET", "/v1/probes?target=web", "", http.StatusBadRequest},
		{"POST", "/v1/node?drain=1", "", http.StatusNotFound}, // this server drains no node
	} {
		req, err := http.NewRequest(r.method, "http://svcproxy"+r.path, strings.NewReader(r.body))
		if err != nil {
			// net/http refuses to send it; a raw request is the server's to refuse.
			req, err = http.NewRequest(r.method, "http://svcproxy/", strings.NewReader(r.body))
			if err != nil {
				t.Fatal(err)
			}
			req.URL.Opaque = r.path
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Errorf("%s %.60s: %v", r.method, r.path, err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != r.want {
			t.Errorf("%s %.60s: %d, want %d", r.method, r.path, resp.StatusCode, r.want)
		}
	}
	if len(l.list) != 0 {
		t.Errorf("kept %v", l.list)
	}
}
