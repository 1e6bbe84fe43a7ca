package config

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/mode"
)

// A limit or a timeout in a file or a flag is set exactly. One that is null in
// kube-proxy's file, or a comment in a written configuration, is not.
func TestWrittenConntrackKeysAreExact(t *testing.T) {
	type exact = struct{ Max, TCPEstablished, TCPCloseWait bool }
	kube := "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nconntrack:\n"
	for _, test := range []struct {
		name, text, flag string
		want             exact
	}{
		{"a.toml", "", "--v=1", exact{}},
		{"a.toml", "conntrack.maxPerCore = 32768", "--v=1", exact{Max: true}},
		{"a.toml", "[conntrack]\nmin = 131072\ntcpCloseWaitTimeout = \"1h\"", "--v=1", exact{Max: true, TCPCloseWait: true}},
		{"a.toml", "", "--conntrack-tcp-timeout-established=24h", exact{TCPEstablished: true}},
		{"a.yaml", kube + "  maxPerCore: null\n  min: null\n  tcpEstablishedTimeout: null\n", "--v=1", exact{}},
		{"a.yaml", kube + "  maxPerCore: 32768\n  tcpEstablishedTimeout: 24h0m0s\n", "--v=1", exact{Max: true, TCPEstablished: true}},
		{"a.toml", string(Default().TOML()), "--v=1", exact{}},
		{"a.yaml", string(Default().YAML()), "--v=1", exact{}},
	} {
		fs := pflag.NewFlagSet("svcproxy", pflag.ContinueOnError)
		flags := AddFlags(fs)
		if err := fs.Parse([]string{test.flag}); err != nil {
			t.Fatal(err)
		}
		c, _, err := Decode(test.name, []byte(test.text), flags)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ForMode().Conntrack.Exact; got != test.want {
			t.Errorf("%s and %s: %+v, want %+v\n%s", test.name, test.flag, got, test.want, test.text)
		}
	}
}

// Buckets are a quarter of the entries, in whole pages of any size.
func TestConntrackBuckets(t *testing.T) {
	for entries, want := range map[uint32]uint32{0: 0, 1: 8192, 131072: 32768, 262144: 65536, 300001: 81920, 800768: 204800, 1<<32 - 1: 1 << 30} {
		if got := mode.Buckets(entries); got != want {
			t.Errorf("%d entries: %d buckets, want %d", entries, got, want)
		}
	}
}
