package random

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// ownNamespace says that the process has a network namespace for the endpoints. The
// relay's listeners are the node's, because the test's own thread opens them. It
// connects to endpoints from other threads, which are in the process's namespace.
const ownNamespace = "SVCPROXY_RANDOM_ENDPOINTS"

func TestMain(m *testing.M) {
	if os.Geteuid() == 0 && os.Getenv("SVCPROXY_NAMESPACE") == "" {
		if err := haveEndpoints(); err != nil {
			fmt.Fprintln(os.Stderr, "a namespace for the endpoints:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// haveEndpoints begins the process again in a network namespace of its own, which has
// every endpoint's address.
func haveEndpoints() error {
	if os.Getenv(ownNamespace) == "" {
		runtime.LockOSThread() // which the new program continues
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), ownNamespace+"=1"))
	}
	lines := []string{"link set lo up"}
	for _, p := range endpoints {
		for a := p.Addr(); p.Contains(a); a = a.Next() {
			lines = append(lines, "addr add "+a.String()+" dev lo")
		}
	}
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// listening lists the sockets that serve virtual servers, as ss does.
func listening(virtuals []kernel.Virtual) (all []string) {
	for _, v := range virtuals {
		all = append(all, fmt.Sprintf("%v %v", v.Key.Proto, v.Key.AddrPort()))
	}
	slices.Sort(all)
	return all
}

// asked is how many fronts of a table the client asks.
const asked = 8

// drawn reports whether an address is of those that endpoints have in most tables. The client's host
// has these.
func drawn(a netip.Addr) bool {
	return slices.ContainsFunc(endpoints, func(p netip.Prefix) bool { return p.Contains(a) })
}

// ask has the client ask some fronts of a table, each twice. An endpoint that is wanted
// must answer, and with affinity the same one again.
func (n *node) ask(d draw, t sources.Table, c mode.Config) {
	n.Helper()
	if n.client == nil || t.Services.Len() >= largeServices {
		return
	}
	s := n.mode.State(frontend.List(t, n.have.Node, c.Frontends), c)
	order := d.Perm(len(s.Virtuals))
	for _, i := range order[:min(asked, len(order))] {
		v := &s.Virtuals[i]
		if slices.ContainsFunc(s.Reals.Of(v.Key), func(r kernel.Real) bool { return r.Key.Virtual == v.Key && !drawn(r.Key.Addr.Addr()) }) {
			continue // of a large table that was served before
		}
		var want []netip.AddrPort
		for _, r := range s.Reals.All() {
			if r.Key.Virtual == v.Key {
				n.serve(v.Key.Proto, r.Key.Addr)
				if r.Weight > 0 {
					want = append(want, r.Key.Addr)
				}
			}
		}
		var last netip.AddrPort
		for range 2 {
			from, err := n.answer(v.Key, len(want) > 0)
			switch {
			case len(want) == 0:
				if err == nil {
					n.Errorf("%v has no endpoints, and %v answers", v.Key, from)
				}
			case err != nil:
				n.Errorf("%v: %v", v.Key, err)
			case !slices.Contains(want, from):
				n.Errorf("%v: %v answers, want one of %v", v.Key, from, want)
			case v.Flags&kernel.FlagPersistent != 0 && v.Timeout >= 300 && last.IsValid() && last != from:
				n.Errorf("%v has affinity, and %v answers after %v", v.Key, from, last)
			}
			last = from
		}
	}
}

// answer returns which endpoint answers the client. Datagrams may be lost.
func (n *node) answer(k kernel.VirtualKey, served bool) (from netip.AddrPort, err error) {
	if k.Proto == kernel.UDP && !served {
		return from, errors.New("nobody is there to answer a datagram")
	}
	err = lab.Eventually(time.Minute, func() error {
		var answer error
		from, answer = n.answerNow(k)
		if !served {
			return nil
		}
		return answer
	})
	if err == nil && !from.IsValid() {
		err = errors.New("no answer")
	}
	return from, err
}

func (n *node) answerNow(k kernel.VirtualKey) (from netip.AddrPort, err error) {
	c, err := n.client.Dial(k.Proto.String(), k.AddrPort())
	if err != nil {
		return from, err
	}
	defer c.Close()
	limit := time.Minute
	if k.Proto == kernel.UDP {
		limit = time.Second
	}
	c.SetDeadline(time.Now().Add(limit))
	if _, err := c.Write([]byte("?\n")); err != nil {
		return from, err
	}
	line, err := bufio.NewReader(c.Conn).ReadString('\n')
	if err != nil {
		return from, err
	}
	return netip.ParseAddrPort(strings.TrimSpace(line))
}

// served are the endpoints that answer. They stay.
var served sync.Map

// serve lets an endpoint answer with its own address.
func (n *node) serve(p kernel.Proto, at netip.AddrPort) {
	n.Helper()
	if _, there := served.LoadOrStore(p.String()+at.String(), true); there {
		return
	}
	opened := make(chan error)
	go func() { // on a thread in the process's own namespace
		if p == kernel.UDP {
			c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
			opened <- err
			for buf := make([]byte, 16); err == nil; {
				var client netip.AddrPort
				if _, client, err = c.ReadFromUDPAddrPort(buf); err == nil {
					c.WriteToUDPAddrPort([]byte(at.String()+"\n"), client)
				}
			}
			return
		}
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		opened <- err
		for err == nil {
			var c net.Conn
			if c, err = l.Accept(); err == nil {
				bufio.NewReader(c).ReadString('\n') // closing with data unread would be a reset
				c.Write([]byte(at.String() + "\n"))
				c.Close()
			}
		}
	}()
	if err := <-opened; err != nil {
		n.Fatal(err)
	}
}
