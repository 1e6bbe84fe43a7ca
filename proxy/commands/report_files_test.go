package commands

import (
	"strings"
	"testing"
)

// Files of any name are TOML, except those that are known to be something else.
func TestCleaned(t *testing.T) {
	const services = "# comment\n[services.web]\nhealthCheck.send = \"hunter2\"\n"
	for _, path := range []string{"/etc/svcproxy/services.toml", "/etc/svcproxy/services.d/web", "/etc/svcproxy/services.conf"} {
		if got := cleaned(path, services, false); strings.Contains(got, "hunter2") || strings.Contains(got, "comment") || !strings.Contains(got, "[services.web]") {
			t.Errorf("%s: %q", path, got)
		}
	}
	const options = "# comment\nSVCPROXY_OPTS=--v=3 # more\n"
	for _, path := range []string{"/etc/default/svcproxy", "/etc/sysconfig/svcproxy"} {
		if got := cleaned(path, options, false); got != "SVCPROXY_OPTS=--v=3 # more\n" {
			t.Errorf("%s: %q", path, got)
		}
	}
	if got := cleaned("/etc/svcproxy/node", "# comment\nmode: ipvs # more\n", true); got != "mode: ipvs\n" {
		t.Errorf("YAML: %q", got)
	}
}
