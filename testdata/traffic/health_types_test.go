package traffic

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A typeCase is a type of check with servers of its kind, one of which fails.
type typeCase struct {
	check      string
	protocol   string
	port       int
	serve      func(*lab.Backend) func(net.Conn)
	answer     func([]byte) []byte // of UDP
	fail, heal func(*lab.Port) error
}

// Each type of check sees that a real server of its kind fails, and that it is back. No server fails by silence: a
// timeout on a starved machine counts as void.
func TestEveryTypeOfCheckSeesAServerFail(t *testing.T) {
	n := newCheckedNode(t, "health.execDirs = [\"/bin\"]\n")
	flags := t.TempDir()
	open(t, flags)
	list := typeCases(t, n, flags)
	var services []checkedService
	ports := make([]*lab.Port, len(list))
	for i, c := range list {
		services = append(services, checkedService{
			name: fmt.Sprint("s", i), vip: fmt.Sprintf("10.96.8.%d", i+1), port: c.port, protocol: c.protocol,
			check: fmt.Sprintf("{ type = %s, %s }", c.check, patient),
		})
		if c.serve != nil {
			ports[i] = n.openPorts(t, c.port, c.serve)[0]
		}
		if c.answer != nil {
			for _, b := range n.Backends[1:] {
				_, err := b.OpenDatagrams(c.port, c.answer)
				must(t, err)
			}
			p, err := n.Backends[0].OpenDatagrams(c.port, c.answer)
			must(t, err)
			ports[i] = p
		}
	}
	n.start(t, textOf(services))
	n.allUp(t, 3*len(list))
	for pod := range 3 {
		n.getsWeight(t, services[len(list)-1].real(pod+1), 75) // the agent's, of 100
	}
	w := n.watch(t)
	probes()
	w.wantNone(t, "with all servers well")
	for i, c := range list {
		must(t, c.fail(ports[i]))
	}
	for i, c := range list {
		t.Run(c.check, func(t *testing.T) { n.becomes(t, patience, false, services[i].real(1)) })
	}
	n.becomes(t, 0, true, append(realsOf(services, 2), realsOf(services, 3)...)...)
	for i, c := range list {
		must(t, c.heal(ports[i]))
	}
	for i, c := range list {
		t.Run(c.check+", again", func(t *testing.T) { n.becomes(t, patience, true, services[i].real(1)) })
	}
}

func typeCases(t *testing.T, n node, flags string) []typeCase {
	web := func(b *lab.Backend) func(net.Conn) { return b.Web(200, 0) }
	cert, _, _, _ := certificates(t)
	secure := func(b *lab.Backend) func(net.Conn) { return lab.Secure(cert, b.Web(200, 0)) }
	grpc := func(*lab.Backend) func(net.Conn) { return lab.GRPC(true) }
	agent := func(*lab.Backend) func(net.Conn) { return lab.Say("up 75%\n") }
	serve := func(f func(*lab.Backend) func(net.Conn)) func(*lab.Port) error {
		return func(p *lab.Port) error { p.Serve(f(p.Backend)); return nil }
	}
	always := func(f func(net.Conn)) func(*lab.Backend) func(net.Conn) {
		return func(*lab.Backend) func(net.Conn) { return f }
	}
	answer := func(f func([]byte) []byte) func(*lab.Port) error {
		return func(p *lab.Port) error { p.Answer(f); return nil }
	}
	echo := func(b []byte) []byte { return b }
	ping := func(verb string) func(*lab.Port) error {
		return func(*lab.Port) error {
			_, err := n.Backends[0].Run("iptables", "-w", verb, "INPUT", "-p", "icmp", "--icmp-type", "echo-request", "-j", "REJECT", "--reject-with", "icmp-host-prohibited")
			return err
		}
	}
	flag := filepath.Join(flags, "10.2.1.10")
	script := fmt.Sprintf(`"exec", command = "/bin/sh", args = ["-c", "test ! -e %s/$SVCPROXY_ADDRESS"]`, flags)
	return []typeCase{
		{`"tcp", send = "\n", expect = "pod"`, "", 7801, lines, nil, serve(always(lab.Say("busy\n"))), serve(lines)},
		{`"http", path = "/healthz", expectBody = "pod"`, "", 7802, web, nil,
			serve(func(b *lab.Backend) func(net.Conn) { return b.Web(503, 0) }), serve(web)},
		{`"https"`, "", 7803, secure, nil, serve(web), serve(secure)},
		{`"tls"`, "", 7804, secure, nil, serve(always(lab.Say("busy\n"))), serve(secure)},
		{`"dns", query = "example.org"`, "UDP", 7805, nil, lab.DNS(dnsmessage.RCodeNameError), answer(lab.DNS(dnsmessage.RCodeServerFailure)), answer(lab.DNS(dnsmessage.RCodeSuccess))},
		{`"grpc"`, "", 7806, grpc, nil, serve(always(lab.GRPC(false))), serve(grpc)},
		{`"udp", send = "ping", expect = "ping"`, "UDP", 7807, nil, echo, (*lab.Port).Close, (*lab.Port).Open},
		{`"ping"`, "", 7808, nil, nil, ping("-I"), ping("-D")},
		{script, "", 7809, nil, nil, func(*lab.Port) error { return os.WriteFile(flag, nil, 0o644) }, func(*lab.Port) error { return os.Remove(flag) }},
		{`"agent"`, "", 7810, agent, nil, serve(always(lab.Say("down #disk full\n"))), serve(agent)},
	}
}
