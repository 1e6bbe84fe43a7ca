package plan

import (
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// Rules of mode iptables, kube-proxy's chains of endpoints too, are read as virtual servers: by cluster IP, by the node's
// address and port, by localhost, through a chain for source ranges, and refused.
func TestTranslated(t *testing.T) {
	o, err := kernel.ParseObserved(`#: iptables
*filter
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
-A KUBE-SERVICES -d 10.96.0.2/32 -p tcp -m comment --comment "none has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
-A KUBE-EXTERNAL-SERVICES -d 198.51.100.2/32 -p udp -m udp --dport 53 -j REJECT --reject-with icmp-port-unreachable
-A KUBE-EXTERNAL-SERVICES -d 198.51.100.3/32 -p tcp -m tcp --dport 80 -j DROP
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-EXT-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-FW-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SEP-BBBBBBBBBBBBBBBB - [0:0]
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-SERVICES -d 198.51.100.1/32 -p tcp -m tcp --dport 80 -j KUBE-FW-AAAAAAAAAAAAAAAA
-A KUBE-SERVICES -d 192.0.2.1/32 -j KUBE-NODEPORTS
-A KUBE-SERVICES -d 127.0.0.0/8 -j KUBE-NODEPORTS
-A KUBE-NODEPORTS -p tcp -m tcp --dport 30080 -j KUBE-EXT-AAAAAAAAAAAAAAAA
-A KUBE-FW-AAAAAAAAAAAAAAAA -s 192.0.2.0/24 -j KUBE-EXT-AAAAAAAAAAAAAAAA
-A KUBE-EXT-AAAAAAAAAAAAAAAA -j KUBE-MARK-MASQ
-A KUBE-EXT-AAAAAAAAAAAAAAAA -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-SVC-AAAAAAAAAAAAAAAA -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-BBBBBBBBBBBBBBBB
-A KUBE-SVC-AAAAAAAAAAAAAAAA -p tcp -m tcp -j DNAT --to-destination 10.2.0.2:80
-A KUBE-SEP-BBBBBBBBBBBBBBBB -p tcp -m tcp -j DNAT --to-destination 10.2.0.1:80
COMMIT
`)
	if err != nil {
		t.Fatal(err)
	}
	o.Names = kernel.DefaultNames
	virtuals, reals := Translated(&o)
	var got []string
	for _, v := range virtuals {
		got = append(got, v.Key.String())
	}
	for _, r := range reals {
		got = append(got, r.String())
	}
	const want = `-t 10.96.0.1:80
-t 10.96.0.2:80
-t 127.0.0.1:30080
-t 192.0.2.1:30080
-t 198.51.100.1:80
-u 198.51.100.2:53
-a -t 10.96.0.1:80 -r 10.2.0.1:80 -m -w 1
-a -t 10.96.0.1:80 -r 10.2.0.2:80 -m -w 1
-a -t 127.0.0.1:30080 -r 10.2.0.1:80 -m -w 1
-a -t 127.0.0.1:30080 -r 10.2.0.2:80 -m -w 1
-a -t 192.0.2.1:30080 -r 10.2.0.1:80 -m -w 1
-a -t 192.0.2.1:30080 -r 10.2.0.2:80 -m -w 1
-a -t 198.51.100.1:80 -r 10.2.0.1:80 -m -w 1
-a -t 198.51.100.1:80 -r 10.2.0.2:80 -m -w 1`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}
