package commands

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/cli"
)

// announces runs `svcproxy announce` with a configuration, and returns what it prints.
func announces(t *testing.T, toml, services string, argv ...string) (out, warnings string, err error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"services.toml": services,
		"svcproxy.toml": fmt.Sprintf("sources.file.paths = [%q]\nstateDir = %q\nruntimeDir = %q\n%s", filepath.Join(dir, "services.toml"), dir, dir, toml),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stdout, err := os.Create(filepath.Join(dir, "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	var stderr bytes.Buffer
	e := &Env{Out: stdout, Err: &stderr, Version: "1"}
	p := cli.Program{Name: "svcproxy", Flags: e.Flags, Commands: []cli.Command{Announce(e)}}
	err = p.Run(t.Context(), append([]string{"announce", "--config", filepath.Join(dir, "svcproxy.toml")}, argv...), stdout)
	text, failed := os.ReadFile(stdout.Name())
	if failed != nil {
		t.Fatal(failed)
	}
	return string(text), stderr.String(), err
}

// The example has the VIPs that may be announced, and the keys of svcproxy.toml. Keys that do not fit are a warning.
func TestAnnounceConfig(t *testing.T) {
	const services = `
[services.web]
type = "LoadBalancer"
loadBalancerIPs = ["198.51.100.80", "2001:db8:80::80"]
ports = [{ port = 80 }, { name = "other", port = 81 }]
endpoints = ["10.2.1.10", "fd00:2:1::10"]
[services.seen]
vips = ["198.51.100.81"]
keepClientAddress = true
port = 80
backends = ["10.2.1.10"]
[services.silent]
externalIPs = ["203.0.113.9"]
announce = false
ports = [{ port = 80 }]
endpoints = ["10.2.1.10"]
`
	two := strings.Replace(services, `ports = [{ port = 80 }, {`, `ports = [{ name = "web", port = 80 }, {`, 1)
	for _, c := range []struct{ toml, argv, has, warning string }{
		{"announce.mode = \"routes\"\nannounce.table = 77\n", "config", "kernel table 77;", ""},
		{"announce.mode = \"routes\"\nannounce.table = 0\n", "config", "kernel table 254;", "bird would announce all routes of the main table"},
		{"", "config", "kernel table 143;", `announce.mode is "off": bird needs "routes"`},
		{"announce.mode = \"routes\"\n", "config --engine frr", "ip prefix-list vips seq 5 permit 198.51.100.0/24 ge 32\nipv6 ", "frr needs 0"},
		{"announce.mode = \"vrrp\"\nannounce.file = \"/run/vips\"\nipvs.strictARP = true\n", "config", "file \"/run/vips\"\n", ""},
		{"announce.mode = \"vrrp\"\nannounce.file = \"/run/vips\"\nipvs.strictARP = true\n", "config", "{\n\t\t198.51.100.80/32\n\t\t198.51.100.81/32\n\t}\n\tvirtual_ipaddress_excluded {\n\t\t2001:db8:80::80/128\n\t}\n", ""},
	} {
		out, warnings, err := announces(t, c.toml, two, strings.Fields(c.argv)...)
		if err != nil || !strings.Contains(out, c.has) || !strings.Contains(warnings, c.warning) || c.warning == "" && strings.Contains(warnings, "announce.") {
			t.Errorf("%q, %s: %v\n%s\n%s\nwant %q, %q", c.toml, c.argv, err, warnings, out, c.has, c.warning)
		}
	}
	for engine, code := range map[string]int{"frr": cli.Config, "keepalived": cli.Config, "bird": 0} {
		out, _, err := announces(t, "announce.mode = \"routes\"\n", "services = {}\n", "config", "--engine", engine)
		if cli.Code(err) != code || (out == "") != (code != 0) {
			t.Errorf("%s without a VIP: %v\n%s", engine, err, out)
		}
	}
	for _, argv := range []string{"config --engine quagga", "config --if-dead", "withdraw --engine bird", "", "show", "config withdraw"} {
		if _, _, err := announces(t, "", two, strings.Fields(argv)...); cli.Code(err) != cli.Usage {
			t.Errorf("announce %s: %v", argv, err)
		}
	}
	if _, _, err := announces(t, "", "services = 1\n", "config"); cli.Code(err) != cli.Config {
		t.Errorf("a services file that is refused: %v", err)
	}
}
