package traffic

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// quick are the paces of checks whose detection time is not what a test is about.
const quick = `interval = "500ms", timeout = "1s", fastInterval = "200ms", downInterval = "300ms"`

// patient are quick's paces with a timeout that servers keep on a starved machine. There, a timeout of a probe counts as
// void: what a test needs to go down has to fail in another way.
const patient = `interval = "500ms", timeout = "5s", fastInterval = "200ms", downInterval = "300ms"`

// detection is the longest time until these find an endpoint that refuses: an interval, and two fast ones.
const detection = 900 * time.Millisecond

// A fault is what happens to one of three backends, and its end.
type fault struct {
	checkedService
	serve      func(*lab.Backend) func(net.Conn)
	fail, heal func(*lab.Port) error
	ask        func(*lab.Conn) (lab.Answer, error)
	within     time.Duration // the bound of detection; 0 = any
	silent     bool          // probes of it time out
}

// faults are those of the acceptance: each is one service, and pod1 is at fault.
func faults(t *testing.T) []fault {
	web := func(b *lab.Backend) func(net.Conn) { return b.Web(200, 0) }
	serve := func(f func(net.Conn)) func(*lab.Port) error {
		return func(p *lab.Port) error { p.Serve(f); return nil }
	}
	well := func(f func(*lab.Backend) func(net.Conn)) func(*lab.Port) error {
		return func(p *lab.Port) error { p.Serve(f(p.Backend)); return nil }
	}
	bad := func(status int, delay time.Duration) func(*lab.Port) error {
		return func(p *lab.Port) error { p.Serve(p.Backend.Web(status, delay)); return nil }
	}
	drop := func(yes bool) func(*lab.Port) error { return func(p *lab.Port) error { return p.Drop(yes) } }
	secure, expired, check, askTLS := certificates(t)
	https := func(b *lab.Backend) func(net.Conn) { return lab.Secure(secure, b.Web(200, 0)) }
	http := `{ type = "http", path = "/healthz", ` + quick + ` }`
	answers := `{ type = "http", path = "/healthz", ` + patient + ` }`
	list := []fault{
		{checkedService{name: "refused", check: `"tcp"`}, lines, (*lab.Port).Close, (*lab.Port).Open, (*lab.Conn).Ask, 3 * time.Second, false},
		{checkedService{name: "dropped", check: `"tcp"`}, lines, drop(true), drop(false), (*lab.Conn).Ask, 9 * time.Second, true},
		{checkedService{name: "dropped-fast", check: `{ type = "tcp", interval = "1s", timeout = "1100ms", fastInterval = "200ms" }`},
			lines, drop(true), drop(false), (*lab.Conn).Ask, 4700 * time.Millisecond, true},
		{checkedService{name: "hangs", check: http}, web, serve(lab.Hang), well(web), (*lab.Conn).Get, 0, true},
		{checkedService{name: "status-500", check: answers}, web, bad(500, 0), well(web), (*lab.Conn).Get, 0, false},
		{checkedService{name: "slow", check: http}, web, bad(200, 3*time.Second), well(web), (*lab.Conn).Get, 0, true},
		{checkedService{name: "expired", check: check}, https, func(p *lab.Port) error {
			p.Serve(lab.Secure(expired, p.Backend.Web(200, 0)))
			return nil
		}, well(https), askTLS, 0, false},
	}
	list = append(list, fault{checkedService{name: "refused-over-ipv6", vip: "fd00:96:1::1", check: "{ type = \"tcp\", " + patient + " }"},
		lines, (*lab.Port).Close, (*lab.Port).Open, (*lab.Conn).Ask, 0, false})
	for i := range list {
		list[i].port = 7100 + i
		if list[i].vip == "" {
			list[i].vip = fmt.Sprintf("10.96.1.%d", i+1)
		}
	}
	return list
}

// certificates are a good and an expired certificate of one authority, the health
// check that trusts it, and a client that does.
func certificates(t *testing.T) (good, expired tls.Certificate, check string, ask func(*lab.Conn) (lab.Answer, error)) {
	t.Helper()
	const name = "www.example.org"
	authority, err := lab.NewAuthority()
	must(t, err)
	good, err = authority.Certificate(name, time.Hour)
	must(t, err)
	expired, err = authority.Certificate(name, -time.Hour)
	must(t, err)
	file := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(file, authority.PEM(), 0o644))
	check = fmt.Sprintf(`{ type = "https", verify = true, host = %q, caFile = %q, %s }`, name, file, patient)
	config := &tls.Config{RootCAs: authority.Pool(), ServerName: name}
	return good, expired, check, func(c *lab.Conn) (lab.Answer, error) {
		if err := c.Secure(config); err != nil {
			return lab.Answer{}, err
		}
		return c.Get()
	}
}

// An endpoint that is dead, or as good as dead, gets no connection once that is
// detected. The others' connections do not notice, and it is back when it answers.
func TestDeadEndpointGetsNoConnections(t *testing.T) {
	n := newCheckedNode(t, "")
	list := faults(t)
	ports := make([]*lab.Port, len(list))
	text := ""
	for i, f := range list {
		ports[i] = n.openPorts(t, f.port, f.serve)[0]
		text += f.text()
	}
	n.start(t, text)
	open, w := newLoad(t), n.watch(t)
	for _, f := range list {
		n.wantOnly(t, f.front(), 9, f.ask, "pod1", "pod2", "pod3")
		for _, name := range []string{"pod2", "pod3"} {
			c := n.hold(t, f.front(), name, f.ask)
			open.add(f.name+", the open connection to "+name, w.unlessStarved(func() error { _, err := f.ask(c); return err }))
		}
	}
	failed := make([]time.Time, len(list))
	for i, f := range list {
		failed[i] = time.Now()
		must(t, f.fail(ports[i]))
	}
	for i, f := range list {
		at, err := w.down(time.Minute, f.real(1), failed[i])
		if err != nil && f.silent && !w.freely() {
			t.Logf("%s: not detected: on a starved machine a timeout counts as void", f.name)
			continue
		}
		must(t, err)
		took := at.Sub(failed[i])
		t.Logf("%s: detected after %v", f.name, took.Round(10*time.Millisecond))
		// Each of three probes, and the sync, may be as late as a machine that runs freely is.
		if f.within > 0 && w.freely() && took > f.within+4*freePause {
			t.Errorf("%s: detected after %v, want at most %v", f.name, took, f.within)
		}
		n.wantOnly(t, f.front(), 20, f.ask, "pod2", "pod3")
	}
	for i, f := range list {
		must(t, f.heal(ports[i]))
	}
	for _, f := range list {
		n.becomes(t, 2*time.Minute, true, f.real(1))
		n.wantOnly(t, f.front(), 9, f.ask, "pod1", "pod2", "pod3")
	}
	open.goOn(t, 50)
	open.wantServed(t)
}
