package traffic

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A client that has shut down its sending side still gets the rest of the
// backend's answer, although IPVS no longer counts the connection as active.
func TestHalfClosedTransferOutlivesItsBackendsRemoval(t *testing.T) {
	const (
		port  = 7100
		lines = 60 // one each pace: three times as long as the loop's looks at a drain are apart
	)
	n := newNode(t, "")
	service := func(pod int) string {
		return fmt.Sprintf("[services.files]\nclusterIPs = [\"10.96.0.20\", \"fd00:96::20\"]\nports = [{ port = 80, targetPort = %d }]\n"+
			"endpoints = [\"10.2.%d.10\", \"fd00:2:%d::10\"]\n", port, pod, pod)
	}
	server, err := n.Backend("pod1").Listen(port)
	must(t, err)
	defer server.Close()
	n.start(t, service(1))

	type transfer struct {
		client net.Conn
		server net.Conn
	}
	var transfers []transfer
	for _, to := range []string{"10.96.0.20:80", "[fd00:96::20]:80"} {
		c, err := n.Client.Dial("tcp", netip.MustParseAddrPort(to))
		must(t, err)
		defer c.Close()
		s, err := server.Accept()
		must(t, err)
		defer s.Close()
		_, err = io.WriteString(c, "send it all\n")
		must(t, err)
		must(t, c.Conn.(*net.TCPConn).CloseWrite())
		s.SetReadDeadline(time.Now().Add(lab.AskLimit))
		asked, err := io.ReadAll(s) // up to the client's end
		must(t, err)
		if string(asked) != "send it all\n" {
			t.Fatalf("the server was asked %q", asked)
		}
		transfers = append(transfers, transfer{c.Conn, s})
	}
	if modeOf(t) == "ipvs" {
		if active := n.tool(t, "ipvsadm", "-Ln"); !oneInactive(active, "10.2.1.10:7100") {
			t.Errorf("a half-closed connection is not what this test is about:\n%s", active)
		}
	}

	n.serve(t, service(2))
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for i := range lines {
		for _, x := range transfers {
			if _, err := fmt.Fprintf(x.server, "line %d\n", i); err != nil {
				t.Fatalf("sending line %d: %v", i, err)
			}
		}
		<-tick.C
	}
	if w := weightOf(t, n, "10.96.0.20:80", "10.2.1.10:7100"); w != "0" {
		t.Errorf("during the transfer its backend drains at weight %q, want 0", w)
	}
	for _, x := range transfers {
		must(t, x.server.Close())
		x.client.SetReadDeadline(time.Now().Add(lab.AskLimit))
		got := 0
		in := bufio.NewScanner(x.client)
		for in.Scan() {
			got++
		}
		if in.Err() != nil || got != lines {
			t.Errorf("%s: %d of %d lines came, then %v", x.client.RemoteAddr(), got, lines, in.Err())
		}
	}
}

// oneInactive reports whether ipvsadm -Ln counts one inactive connection to a real
// server and no active one.
func oneInactive(listing, real string) bool {
	for line := range strings.Lines(listing) {
		f := strings.Fields(line)
		if len(f) == 6 && f[1] == real {
			return f[4] == "0" && f[5] == "1"
		}
	}
	return false
}
