package iptables

import (
	"crypto/sha256"
	"math/big"
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

var long = strings.Repeat("x", 63) + "/" + strings.Repeat("y", 63) + ":" + strings.Repeat("z", 63)

// vectors are hashes of service ports, and of their endpoints. Those of default/kubernetes and
// kube-system/kube-dns are in the chains of every Kubernetes node.
var vectors = []struct {
	name     string
	proto    kernel.Proto
	endpoint string
	hash     string
}{
	{"ns1/svc1:p80", kernel.TCP, "", "XPGD46QRK7WJZT7O"},
	{"ns1/svc1:p80", kernel.TCP, "10.180.0.1:80", "SXIVWICOYRO3J4NJ"},
	{"default/web:http", kernel.TCP, "", "CDGGSHYLG3RE2FKL"},
	{"default/web:http", kernel.TCP, "10.2.1.10:8080", "FPHZ73JFNXR2MF63"},
	{"ns2/svc2:p80", kernel.TCP, "", "GNZBNJ2PO5MGZ6GT"},
	{"ns3/svc3:p80", kernel.TCP, "", "X27LE4BHSL4DOUIK"},
	{"ns4/svc4:p80", kernel.TCP, "", "4SW47YFZTEDKD3PK"},
	{"ns5/svc5:p80", kernel.TCP, "", "NUKIZ6OKUXPJNT4C"},
	{"default/kubernetes:https", kernel.TCP, "", "NPX46M4PTMTKRN6Y"},
	{"default/kubernetes:https", kernel.TCP, "192.168.1.2:6443", "L2IPDJWE6EEVHGM7"},
	{"kube-system/kube-dns:dns", kernel.UDP, "", "TCOU7JCQXEZGVUNU"},
	{"kube-system/kube-dns:dns-tcp", kernel.TCP, "", "ERIFXISQEP7F7OF4"},
	{"kube-system/kube-dns:metrics", kernel.TCP, "", "JD5MR3NA4I4DYORP"},
	{"kube-system/kube-dns:dns", kernel.UDP, "10.244.0.2:53", "YIL6JZP7A3QYXJU2"},
	{"kube-system/kube-dns:dns", kernel.UDP, "[fd00:10:244::2]:53", "2RL23PDDHWGDTTIH"},
	{"default/web", kernel.TCP, "", "LOLE4ISW44XBNF3G"},
	{"default/web", kernel.UDP, "", "OITG2N52AJRCLORJ"},
	{"default/web", kernel.SCTP, "", "6XBQYRW2PBWS6JPR"},
	{"default/web", kernel.TCP, "10.2.1.10:80", "JG5ACWEHWK7ZMLFE"},
	{"default/web", kernel.UDP, "10.2.1.10:80", "DAOBUZ23YHJNFP4A"},
	{"default/web", kernel.SCTP, "10.2.1.10:80", "SIRN7NN6NQCLD2V6"},
	{"default/web", kernel.TCP, "[fd00:2:1::10]:80", "H62P72PD5QX4HRKL"},
	{"default/web", kernel.TCP, "10.2.1.1:180", "PFZP73TE5MKHRF4N"},
	{"default/web", kernel.TCP, "10.2.1.11:80", "F72LBA23ABF5TSG6"},
	{"a/b", kernel.TCP, "", "DUKNYE3YZRSAYTGH"},
	{"a/b:c", kernel.TCP, "", "BLYXLBQXBS76W7RZ"},
	{long, kernel.SCTP, "", "576MNIJSLRKEX646"},
	{long, kernel.SCTP, "[2001:db8:1:2:3:4:5:6]:65535", "S22J2IXLIPMG3DNT"},
}

// The hashes are those of the table, and of the rule: 80 bits of SHA-256, five for each
// letter.
func TestHashes(t *testing.T) {
	for _, v := range vectors {
		got := portHash(v.name, v.proto)
		if v.endpoint != "" {
			got = endpointHash(v.name, v.proto, netip.MustParseAddrPort(v.endpoint))
		}
		if got != v.hash {
			t.Errorf("%s %s %s: %s, want %s", v.name, v.proto, v.endpoint, got, v.hash)
		}
		sum := sha256.Sum256([]byte(v.name + v.proto.String() + v.endpoint))
		bits, letters := new(big.Int).SetBytes(sum[:10]), ""
		for range 16 {
			letters = string("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[new(big.Int).And(bits, big.NewInt(31)).Int64()]) + letters
			bits.Rsh(bits, 5)
		}
		if got != letters {
			t.Errorf("%s %s %s: %s, by the rule %s", v.name, v.proto, v.endpoint, got, letters)
		}
		for _, k := range []kernel.ChainKind{kernel.ChainCluster, kernel.ChainLocal, kernel.ChainExternal, kernel.ChainFirewall, kernel.ChainEndpoint} {
			if name := kernel.DefaultNames.Hashed(k, got); kernel.DefaultNames.OwnsHashed(name) != k || !kernel.DefaultNames.OwnsChain("nat", name) {
				t.Errorf("%s is not ours", name)
			}
		}
	}
	if len(vectors) < 24 {
		t.Errorf("%d vectors", len(vectors))
	}
}

func TestPortName(t *testing.T) {
	s := &sources.Service{Namespace: "default", Name: "web"}
	for port, want := range map[string]string{"": "default/web", "http": "default/web:http"} {
		if got := portName(s, &sources.Port{Name: port}); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
