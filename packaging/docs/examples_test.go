package docs

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// Without VIPs, and with the defaults, an example is as the packages install it, but for BIRD's comparison.
func TestDefaults(t *testing.T) {
	for _, e := range Engines() {
		shipped, err := os.ReadFile("examples/" + string(e) + ".conf")
		if err != nil {
			t.Fatal(err)
		}
		want := strings.NewReplacer("above 1000 (", "to 2000 (", "krt_metric > 1000", "krt_metric >= 2000").Replace(string(shipped))
		if got, err := Example(e, ExampleValues{Table: 143, DrainMetric: 2000}); err != nil || got != want {
			t.Errorf("%s: %v\n%s", e, err, got)
		}
	}
	if _, err := Example("quagga", ExampleValues{}); err == nil {
		t.Error("there is an example for quagga")
	}
}

// The values of a node replace those of the example, and nothing of these is left.
func TestExample(t *testing.T) {
	v := ExampleValues{Table: 77, DrainMetric: 900, File: "/var/lib/vips"}
	for _, a := range []string{"10.1.2.3", "10.1.2.4", "10.9.0.1", "fd00:1::1"} {
		v.VIPs = append(v.VIPs, netip.MustParseAddr(a))
	}
	for e, c := range map[Engine]struct{ has, hasNot []string }{
		BIRD: {[]string{"kernel table 77;", "krt_metric >= 900 "}, []string{"143", "1000"}},
		FRR: {
			[]string{"\nip prefix-list vips seq 5 permit 10.1.2.0/24 ge 32\nip prefix-list vips seq 10 permit 10.9.0.0/24 ge 32\nipv6 prefix-list vips seq 5 permit fd00:1::/64 ge 128\n!", "match metric 900"},
			[]string{"2000", "198.51.100", "2001:db8:80"},
		},
		Keepalived: {
			[]string{"file \"/var/lib/vips\"\n", "\tvirtual_ipaddress {\n\t\t10.1.2.3/32\n\t\t10.1.2.4/32\n\t\t10.9.0.1/32\n\t}\n\tvirtual_ipaddress_excluded {\n\t\tfd00:1::1/128\n\t}\n"},
			[]string{"/run/svcproxy", "192.0.2.80"},
		},
	} {
		got, err := Example(e, v)
		if err != nil {
			t.Errorf("%s: %v", e, err)
		}
		for _, text := range c.has {
			if !strings.Contains(got, text) {
				t.Errorf("%s lacks %q:\n%s", e, text, got)
			}
		}
		for _, text := range c.hasNot {
			if strings.Contains(got, text) {
				t.Errorf("%s has %q:\n%s", e, text, got)
			}
		}
	}
	v.VIPs = v.VIPs[3:]
	if got, _ := Example(FRR, v); !strings.Contains(got, "\nip prefix-list vips seq 5 deny any\nipv6") {
		t.Errorf("without IPv4:\n%s", got)
	}
	if got, _ := Example(Keepalived, v); !strings.Contains(got, "\tvirtual_ipaddress {\n\t\tfd00:1::1/128\n\t}\n}") {
		t.Errorf("without IPv4:\n%s", got)
	}
}

// The routing daemons accept their examples with other values.
func TestDaemonsAccept(t *testing.T) {
	vips := []netip.Addr{netip.MustParseAddr("198.51.100.80"), netip.MustParseAddr("2001:db8:80::80")}
	for e, argv := range map[Engine][]string{BIRD: {"bird", "-p", "-c"}, FRR: {"vtysh", "--dryrun", "-f"}, Keepalived: {"keepalived", "-t", "-f"}} {
		t.Run(string(e), func(t *testing.T) {
			kerneltest.Need(t, kerneltest.Tool(argv[0]))
			for _, v := range []ExampleValues{{Table: 77, DrainMetric: 900, File: "/run/svcproxy/vips", VIPs: vips}, {Table: 143, DrainMetric: 2000, VIPs: vips[1:]}} {
				text, err := Example(e, v)
				if err != nil {
					t.Fatal(err)
				}
				file := filepath.Join(t.TempDir(), "conf")
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				if out, err := exec.Command(argv[0], append(argv[1:], file)...).CombinedOutput(); err != nil {
					t.Errorf("%v\n%s\n%s", err, out, text)
				}
			}
		})
	}
}
