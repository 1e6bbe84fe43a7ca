package traffic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A crowd is a node whose client host has addresses of several clients, and a folder of lists.
type crowd struct {
	node
	lists string
}

// The client host's own addresses are those of a client that is served, and these are of one that is not.
var (
	stranger4 = netip.MustParseAddr("192.0.2.7")
	stranger6 = netip.MustParseAddr("2001:db8::7")
)

// more are addresses of other clients.
func more(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(20 + i)}) }

func newCrowd(t *testing.T, others int) crowd {
	t.Helper()
	kerneltest.Need(t, kerneltest.Tool("nft"))
	lists := t.TempDir()
	n := crowd{newNode(t, fmt.Sprintf("sources.file.lists = %q", lists)), lists}
	// What is deprecated is no source unless somebody asks for it.
	must(t, n.Client.IP("addr add "+stranger4.String()+"/24 dev eth0", "addr add "+stranger6.String()+"/64 dev eth0 nodad preferred_lft 0"))
	for i := range others {
		must(t, n.Client.IP("addr add "+more(i).String()+"/24 dev eth0"))
	}
	return n
}

// with is web with keys that say who may use it.
func with(keys string) string {
	return strings.Replace(web, "[services.web]", "[services.web]\n"+keys, 1)
}

// write replaces a list.
func (n crowd) write(t *testing.T, name, text string) {
	t.Helper()
	at := filepath.Join(n.lists, name)
	must(t, os.WriteFile(at+".new", []byte(text), 0o644))
	must(t, os.Rename(at+".new", at))
}

const vip4 = "10.96.0.20:80"

// refuses wants a client refused. What is dropped is silent, and a silent client is one whose connection nobody answers.
func (n crowd) refuses(t *testing.T, when, network string, from netip.Addr, to string) {
	t.Helper()
	if a, err := n.Client.AskWithin(network, from, netip.MustParseAddrPort(to), time.Second); err == nil {
		t.Errorf("%s: %s is served by %s at %s over %s", when, from, a.Backend, to, network)
	}
}

// serves wants a client served.
func (n crowd) serves(t *testing.T, when, network string, from netip.Addr, to string) {
	t.Helper()
	if _, err := n.Client.AskWithin(network, from, netip.MustParseAddrPort(to), lab.AskLimit); err != nil {
		t.Errorf("%s: %s at %s over %s: %v", when, from, to, network, err)
	}
}

// Clients are refused at each kind of address, by deny and by allow, and others are served there. With reject they are
// told so, without it they hear nothing.
func TestClientsAtEachAddress(t *testing.T) {
	n := newCrowd(t, 0)
	n.write(t, "known", n.Client.V4.String()+"\n"+n.Client.V6.String()+"\n")
	n.start(t, web)
	for _, c := range []struct {
		keys string
		told bool
	}{
		{"deny = [\"192.0.2.4/30\", \"2001:db8::7/128\"]\nlimits = { reject = true }\n", true},
		{"allow = [\"@known\", \"198.51.100.0/24\"]\nlimits = { reject = true }\n", true},
		{"allow = [\"@known\"]\n", false},
	} {
		n.serve(t, with(c.keys))
		for _, to := range append([]string{"192.0.2.1:30080", "[2001:db8::1]:30080"}, everywhere...) {
			at := netip.MustParseAddrPort(to)
			known, stranger := n.Client.V4, stranger4
			if at.Addr().Is6() {
				known, stranger = n.Client.V6, stranger6
			}
			for _, network := range []string{"tcp", "udp"} {
				n.serves(t, c.keys, network, known, to)
				if !c.told && at.Port() == 80 && to != vip4 {
					continue // silence takes its time: once over each protocol
				}
				limit := 500 * time.Millisecond
				if c.told {
					limit = lab.AskLimit
				}
				a, err := n.Client.AskWithin(network, stranger, at, limit)
				if err == nil {
					t.Errorf("%s: %s is served by %s at %s over %s", c.keys, stranger, a.Backend, to, network)
				} else if told := errors.Is(err, syscall.ECONNREFUSED); told != c.told || !told && !errors.Is(err, lab.ErrSilence) {
					t.Errorf("%s: %s at %s over %s: %v", c.keys, stranger, to, network, err)
				}
			}
		}
	}
}

// Connections that are open when their client is denied go on, over TCP and UDP, and also those that were open before
// anybody was limited, but in mode userspace, whose connections nothing tracks then. The client gets no new ones.
func TestOpenConnectionsOfADeniedClient(t *testing.T) {
	n := newCrowd(t, 0)
	if n.start(t, web); modeOf(t) == "userspace" {
		n.serve(t, with("limits = { connections = 1000000 }"))
	}
	var open []*lab.Conn
	for _, to := range []string{vip4, "[fd00:96::20]:80", "192.0.2.1:30080"} {
		for _, network := range []string{"tcp", "udp"} {
			c, err := n.Client.Dial(network, netip.MustParseAddrPort(to))
			must(t, err)
			t.Cleanup(func() { c.Close() })
			_, err = c.Ask()
			must(t, err)
			open = append(open, c)
		}
	}
	for _, keys := range []string{
		`deny = ["192.0.2.0/24", "2001:db8::/64"]`,
		`limits = { connections = 1, perClient = true, newConnections = "1/h", burst = 1 }`,
		`allow = ["198.51.100.0/24"]`,
	} {
		n.serve(t, with(keys))
		if strings.HasPrefix(keys, "limits") {
			n.serves(t, keys, "tcp", n.Client.V4, vip4)
		}
		for _, c := range open {
			for range 3 {
				if _, err := c.Ask(); err != nil {
					t.Errorf("%s: %s to %s over %s: %v", keys, c.LocalAddr(), c.RemoteAddr(), c.RemoteAddr().Network(), err)
					break
				}
			}
		}
		n.refuses(t, keys, "tcp", n.Client.V4, vip4)
	}
}

// A client at ten times its rate gets at most 1.1 times it, and 1,000 requests of four others, each below its rate, are
// all answered.
func TestClientAboveItsRate(t *testing.T) {
	const rate, others, requests = 20, 4, 250
	n := newCrowd(t, others)
	n.start(t, with(fmt.Sprintf("limits = { newConnections = \"%d/s\", perClient = true, reject = true }", rate)))
	to := netip.MustParseAddrPort(vip4)
	asked, served, done := make(chan int), make(chan int), make(chan struct{})
	const parts = 4
	began := time.Now()
	for range parts {
		go func() {
			tried, got := 0, 0
			for i := 0; ; i++ {
				select {
				case <-done:
					asked <- tried
					served <- got
					return
				case <-time.After(time.Until(began.Add(time.Duration(i) * time.Second * parts / (10 * rate)))):
				}
				tried++
				if c, err := n.Client.DialFrom("tcp", stranger4, to); err == nil {
					got++
					c.Reset()
				}
			}
		}()
	}
	lost := make(chan error)
	for i := range others {
		go func() {
			var errs error
			for range requests {
				_, err := n.Client.AskWithin("tcp", more(i), to, lab.AskLimit)
				errs = errors.Join(errs, err)
				time.Sleep(time.Second / rate * 5 / 4)
			}
			lost <- errs
		}()
	}
	for range others {
		if err := <-lost; err != nil {
			t.Error(err)
		}
	}
	close(done)
	tried, got := 0, 0
	for range parts {
		tried += <-asked
		got += <-served
	}
	took := time.Since(began).Seconds()
	t.Logf("%.0f connections a second tried, %.1f served, in %.1f s: %.2f of the rate of %d", float64(tried)/took,
		float64(got)/took, took, float64(got)/took/rate, rate)
	if most := 1.1 * rate * took; float64(got) > most || got < rate {
		t.Errorf("%d connections are served of %d, and the rate is %d a second: at most %.0f", got, tried, rate, most)
	}
}

// A client has as many connections open as it may, and gets another when one has ended. So it is with all clients of a
// service together. Over IPv6 all addresses of a network of 64 bits are one client.
func TestConnectionsOfAClient(t *testing.T) {
	const vip6 = "[fd00:96::20]:80"
	n := newCrowd(t, 0)
	n.start(t, web)
	for _, c := range []struct {
		keys, to           string
		from, same, others netip.Addr
	}{
		{"connections = 3, perClient = true, reject = true", vip4, n.Client.V4, n.Client.V4, stranger4},
		{"connections = 3, perClient = true", vip6, n.Client.V6, stranger6, netip.Addr{}},
		{"connections = 3", vip4, n.Client.V4, stranger4, netip.Addr{}},
		{`newConnections = "1/h", burst = 1, connections = 3, perClient = true, whenFull = "closed"`, vip6, netip.Addr{}, stranger6,
			netip.Addr{}},
	} {
		n.serve(t, with("limits = { "+c.keys+" }"))
		to := netip.MustParseAddrPort(c.to)
		if !c.from.IsValid() { // the rate
			n.serves(t, c.keys, "tcp", n.Client.V6, c.to)
			n.refuses(t, c.keys, "tcp", c.same, c.to)
			continue
		}
		var open []*lab.Conn
		for range 3 {
			conn, err := n.Client.DialFrom("tcp", c.from, to)
			if err == nil {
				_, err = conn.Ask()
			}
			must(t, err)
			open = append(open, conn)
		}
		for range 3 {
			n.refuses(t, c.keys, "tcp", c.same, c.to)
		}
		if c.others.IsValid() {
			n.serves(t, c.keys, "tcp", c.others, c.to)
		}
		for _, conn := range open {
			if _, err := conn.Ask(); err != nil {
				t.Errorf("%s: an open connection: %v", c.keys, err)
			}
		}
		must(t, open[0].Reset())
		must(t, lab.Eventually(patience, func() error {
			_, err := n.Client.AskWithin("tcp", c.same, to, time.Second)
			return err
		}))
		for _, conn := range open[1:] {
			must(t, conn.Reset())
		}
	}
}

// Lists change while clients ask, and lose them nothing. A list that is half written, or that is gone for a moment as its
// folder is, keeps its last good content.
func TestListsChangeUnderTraffic(t *testing.T) {
	n := newCrowd(t, 0)
	const bad = "192.0.2.7\n2001:db8::7\n"
	n.write(t, "bad", bad)
	n.write(t, "good", "192.0.2.0/30\n2001:db8::/126\n")
	n.start(t, with("deny = [\"@bad\"]\n")+clusterIP("second", "10.96.0.22", allV4)+"allow = [\"@good\"]\n")
	load := newLoad(t)
	load.put(t, n.Client, vip4)
	load.put(t, n.Client, "[fd00:96::20]:80")
	second := netip.MustParseAddrPort("10.96.0.22:80")
	load.add("second", func() error { _, err := n.Client.Ask("tcp", second); return err })
	denied := func(when string) {
		t.Helper()
		load.goOn(t, 10)
		n.refuses(t, when, "tcp", stranger4, vip4)
		n.refuses(t, when, "tcp", stranger6, "[fd00:96::20]:80")
		n.refuses(t, when, "tcp", stranger4, "10.96.0.22:80")
	}
	change := func(do func()) {
		t.Helper()
		mark := n.Log.Len()
		do()
		n.synced(t, mark)
		load.goOn(t, 10)
	}
	denied("at first")

	change(func() { n.write(t, "bad", "203.0.113.0/24\n") })
	n.serves(t, "no longer denied", "tcp", stranger4, vip4)
	change(func() { n.write(t, "bad", bad) })
	denied("again")
	change(func() { n.write(t, "good", "192.0.2.0/24\n") })
	n.serves(t, "allowed", "tcp", stranger4, "10.96.0.22:80")
	change(func() { n.write(t, "good", "192.0.2.0/30\n") })
	denied("no longer allowed")

	mark, at := n.Log.Len(), filepath.Join(n.lists, "bad")
	says := func(words string) {
		t.Helper()
		must(t, lab.Eventually(patience, func() error {
			if out, _, err := n.Command("status"); err != nil || !strings.Contains(out, words) {
				return fmt.Errorf("status does not say %q: %v\n%s", words, err, out)
			}
			return nil
		}))
	}
	written := pausingWriter(t, at, bad, 5, 3*time.Second) // 192.0 is no address
	denied("half written")
	<-written
	denied("written")
	must(t, os.WriteFile(at, nil, 0o644))
	says("is empty and had 2 networks")
	denied("emptied")
	n.write(t, "bad", bad)
	must(t, os.Rename(n.lists, n.lists+".away"))
	says("is not there and had 2 files")
	denied("without the folder")
	if modeOf(t) == "userspace" { // nobody relays without svcproxy
		load.end()
		load.clients.Wait()
		n.Kill()
	} else {
		n.Kill()
		denied("while svcproxy is dead")
		load.end()
	}
	load.wantServed(t)
	mark2 := n.Log.Len()
	must(t, n.Start())
	_, err := n.Wait(mark2, "msg=starting")
	must(t, err)
	must(t, lab.Eventually(patience, func() error { // the relay listens
		_, err := n.Client.AskWithin("tcp", n.Client.V4, netip.MustParseAddrPort(vip4), lab.AskLimit)
		return err
	}))
	n.refuses(t, "after a restart without the folder", "tcp", stranger4, vip4)
	must(t, os.Rename(n.lists+".away", n.lists))
	if said := n.Log.String()[mark:mark2]; strings.Contains(said, "msg=synced") {
		t.Errorf("faults of files changed something:\n%s", said)
	}
}

// svcproxy is killed at random points while lists and limits change. A client that all of them deny is denied at each of
// these, others lose nothing, and in the end the table is as after a start from empty.
func TestKilledWhileLimitsChange(t *testing.T) {
	kills, _ := endures(t, 0, 4, 8)
	n := newCrowd(t, 0)
	var many strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, "100.%d.%d.0/24\n", 64+i/128, i%128*2)
	}
	lists := []string{"192.0.2.7\n", "192.0.2.6/31\n" + many.String()}
	last := with("deny = [\"192.0.2.7/32\", \"@bad\"]\nlimits = { newConnections = \"900000/s\", reject = true }\n")
	tables := []string{
		with("deny = [\"@bad\"]\n"),
		with("deny = [\"192.0.2.7/32\"]\nlimits = { newConnections = \"900000/s\", perClient = true, connections = 5000 }\n"),
		with("allow = [\"192.0.2.0/30\", \"2001:db8::/64\"]\nlimits = { reject = true }\n"),
		last,
	}
	n.write(t, "bad", lists[0])
	n.start(t, last)
	want := n.limitsTable(t)
	load := newLoad(t)
	to, relayed := netip.MustParseAddrPort(vip4), modeOf(t) == "userspace"
	if !relayed {
		load.put(t, n.Client, vip4)
		load.put(t, n.Client, "[fd00:96::20]:80")
	}
	// Its connections are closed at once if one is made.
	load.add("denied", func() error {
		if err := n.Client.Try(stranger4, to, 300*time.Millisecond); err == nil {
			return errors.New("it has a connection")
		}
		return nil
	})
	for i := range kills {
		for k := range 3 {
			must(t, n.Serve(tables[(i+k)%len(tables)]))
			n.write(t, "bad", lists[k%2])
			time.Sleep(time.Duration(rand.Int64N(int64(300 * time.Millisecond)))) // the time is what this test is about
		}
		n.Kill()
		load.goOn(t, 5)
		mark := n.Log.Len()
		must(t, n.Start())
		if i%2 == 0 {
			_, err := n.Wait(mark, "msg=starting")
			must(t, err)
		}
		time.Sleep(time.Duration(rand.Int64N(int64(time.Second))))
	}
	n.write(t, "bad", lists[0])
	must(t, n.Serve(last))
	must(t, lab.Eventually(patience, func() error {
		out, code, err := n.Command("plan")
		if got := n.limitsTable(t); err == nil && (code != 0 || !strings.Contains(out, "nothing to do") || !slices.Equal(got, want)) {
			err = fmt.Errorf("plan: exit code %d\n%s\nthe table is\n%s\nand was\n%s", code, head(out),
				head(strings.Join(got, "\n")), head(strings.Join(want, "\n")))
		}
		return err
	}))
	load.wantServed(t)
	n.serves(t, "in the end", "tcp", n.Client.V4, vip4)
	n.refuses(t, "in the end", "tcp", stranger4, vip4)
}

// limitsTable is what the program nft reads of the tables of limits, without counters. The order of chains and sets is
// that in which they were made.
func (n crowd) limitsTable(t *testing.T) (lines []string) {
	t.Helper()
	for _, family := range []string{"ip", "ip6"} {
		out, _ := n.Lab.Node.Run("nft", "-s", "list", "table", family, "svcproxy-limits")
		lines = append(lines, strings.Split(out, "\n")...)
	}
	slices.Sort(lines)
	return lines
}
