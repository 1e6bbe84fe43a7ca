package commands

import (
	"io/fs"
	"strings"
	"testing"
)

// The mode of a kube-proxy is that of its file, or of its flag if it has no file.
func TestKubeProxyMode(t *testing.T) {
	for _, test := range []struct{ args, file, want string }{
		{"", "", ""},
		{"--proxy-mode=ipvs", "", "ipvs"},
		{"-v 2 --proxy-mode ipvs --hostname-override=n1", "", "ipvs"},
		{"--proxy-mode=ipvs --config=/etc/kp/config.conf", "mode: \"\"\n", ""},
		{"--config /etc/kp/config.conf", "apiVersion: x\nipvs:\n  mode: iptables\nmode: ipvs # as before\n", "ipvs"},
		{"--config /etc/kp/config.conf", "mode: 'nftables'\r\n", "nftables"},
		{"--config /etc/kp/config.conf", "kind: KubeProxyConfiguration\n", ""},
		{"--config /etc/kp/config.conf", `{"kind": "KubeProxyConfiguration", "ipvs": {"mode": "iptables"}, "mode": "ipvs"}`, "ipvs"},
		{"--config /etc/kp/config.conf", "{\n\t\"mode\": \"ipvs\"\n}\n", "ipvs"},
		{"--config /etc/kp/config.conf", "---\n{kind: KubeProxyConfiguration, mode: ipvs}\n", "ipvs"},
		{"--config /etc/kp/config.conf", "  kind: KubeProxyConfiguration\n  mode: ipvs\n", "ipvs"},
		{"--config /etc/kp/config.conf", "mode: null\n", ""},
		{"--config /etc/kp/config.conf", "mode: [ipvs\n", "unknown"},
		{"--config /etc/kp/config.conf", "mode: {}\n", "unknown"},
		{"--config=/gone", "", "unknown"},
		{"--config", "", ""},
	} {
		got, known := kubeProxyMode(strings.Fields(test.args), func(path string) ([]byte, error) {
			if path != "/etc/kp/config.conf" {
				return nil, fs.ErrNotExist
			}
			return []byte(test.file), nil
		})
		if !known {
			got = "unknown"
		}
		if got != test.want {
			t.Errorf("%s with %q: %q, want %q", test.args, test.file, got, test.want)
		}
	}
}
