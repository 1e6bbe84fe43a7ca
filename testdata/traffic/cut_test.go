package traffic

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A connection whose real server is removed at once, as that of a cut endpoint is,
// ends: with expire_nodest_conn IPVS forgets it and its tracked flow. The client's
// next packet is answered by a reset, also a keep-alive of a client that only
// receives. The server is reset when it next sends, since its packets no longer
// are of a connection. dh removes at once what the file no longer has.
func TestConnectionsOfARemovedRealServerEnd(t *testing.T) {
	for name, config := range map[string]string{"source kept": "", "masqueraded": "iptables.masqueradeAll = true"} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, config)
			table := func(pod string) string {
				endpoints := "endpoints = [\"10.2." + pod + ".10\", \"fd00:2:" + pod + "::10\"]\nscheduler = \"dh\"\n"
				return "[services.web]\nclusterIPs = [\"10.96.0.20\", \"fd00:96::20\"]\nports = [{ port = 80, targetPort = 7000 }]\n" + endpoints +
					"[services.files]\nclusterIPs = [\"10.96.0.21\", \"fd00:96::21\"]\nports = [{ port = 80, targetPort = 7100 }]\n" + endpoints
			}
			n.start(t, table("1"))
			web := []string{"10.96.0.20:80", "[fd00:96::20]:80"}
			var busy []*chat
			var idle []*lab.Conn
			for _, to := range web {
				busy = append(busy, n.chat(t, to, "pod1"))
				idle = append(idle, dialBackend(t, n, netip.MustParseAddrPort(to), "pod1"))
			}
			transfers := []transfer{n.transfer(t, "10.96.0.21:80"), n.transfer(t, "[fd00:96::21]:80")}

			removed := timed(func() { n.serve(t, table("2")) })
			for _, c := range busy {
				c.wantReset(t, removed, 0)
			}
			for _, x := range transfers {
				x.wantReset(t)
			}
			for _, c := range idle {
				asked := time.Now()
				if _, err := c.Ask(); !wasReset(err) {
					t.Errorf("an idle connection to %s ended by %v, want a reset", c.RemoteAddr(), err)
				}
				t.Logf("%s: reset %v after the packet", c.RemoteAddr(), time.Since(asked).Round(time.Millisecond))
			}
			for _, to := range web {
				if a := ask(t, n.Client, "tcp", to); a.Backend != "pod2" {
					t.Errorf("a new connection to %s went to %q", to, a.Backend)
				}
			}
		})
	}
}

// A transfer is a connection on which pod1 sends a line each pace, and the client
// nothing but keep-alives, each second.
type transfer struct {
	client *lab.Conn
	server chan error // why the server stopped
}

func (n node) transfer(t *testing.T, to string) transfer {
	t.Helper()
	server, err := n.Backend("pod1").Listen(7100)
	must(t, err)
	defer server.Close()
	c, err := n.Client.Dial("tcp", netip.MustParseAddrPort(to))
	must(t, err)
	t.Cleanup(func() { c.Close() })
	must(t, c.Conn.(*net.TCPConn).SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second}))
	s, err := server.Accept()
	must(t, err)
	x := transfer{c, make(chan error, 1)}
	go func() {
		defer s.Close()
		for err == nil {
			_, err = io.WriteString(s, "a line\n")
			time.Sleep(pace)
		}
		x.server <- err
	}()
	return x
}

// wantReset wants both ends to be reset.
func (x transfer) wantReset(t *testing.T) {
	t.Helper()
	x.client.SetReadDeadline(time.Now().Add(lab.AskLimit))
	if _, err := io.Copy(io.Discard, x.client); !wasReset(err) {
		t.Errorf("a client of %s that only receives ended by %v, want a reset", x.client.RemoteAddr(), err)
	}
	select {
	case err := <-x.server:
		if !wasReset(err) {
			t.Errorf("a server that sends to a client of %s ended by %v, want a reset", x.client.RemoteAddr(), err)
		}
	case <-time.After(lab.AskLimit):
		t.Errorf("a server that sends to a client of %s is not reset", x.client.RemoteAddr())
	}
}
