package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/mode/iptables"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// The texts are what people search for: see announce.
func TestAnnounce(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	logMode(log, "userspace", []status.Fallback{
		{Mode: "ipvs", Reason: "the kernel has no IPVS", Hint: "modprobe ip_vs"},
		{Mode: "iptables", Reason: "iptables is not installed", Hint: "apt install iptables"},
	})
	for _, want := range []string{
		`level=WARN msg="Can't use ipvs proxier, trying iptables proxier" reason="the kernel has no IPVS" hint="modprobe ip_vs"`,
		`level=WARN msg="Can't use iptables proxy, using userspace proxier" reason="iptables is not installed" hint=`,
		`level=INFO msg="Using userspace Proxier."`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

// Mode ipvs of a file or a flag of kube-proxy's falls back, to iptables first, with the lines that people search for. In
// svcproxy.toml a mode is that one or an error.
func TestModeIPVSFallsBack(t *testing.T) {
	const all = "ipvs iptables nftables userspace"
	for _, c := range []struct{ file, text, flag, want string }{
		{"kube-proxy.yaml", "mode: ipvs", "", all},
		{"kube-proxy.yaml", "mode: iptables", "", "iptables"},
		{"kube-proxy.yaml", "mode: ipvs\nexplicit: []", "", "ipvs"}, // svcproxy wrote it
		{"kube-proxy.yaml", "mode: iptables", "ipvs", all},
		{"svcproxy.toml", `mode = "ipvs"`, "", "ipvs"},
		{"svcproxy.toml", `mode = "ipvs"`, "ipvs", all},
		{"svcproxy.toml", `mode = "ipvs"`, "nftables", "nftables"},
		{"svcproxy.toml", "", "", "ipvs nftables iptables userspace"},
	} {
		text := c.text
		if c.file == "kube-proxy.yaml" {
			text = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n" + text
		}
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags := config.AddFlags(set)
		if c.flag != "" {
			if err := set.Parse([]string{"--proxy-mode=" + c.flag}); err != nil {
				t.Fatal(err)
			}
		}
		var s Setup
		var err error
		if s.Config, _, err = config.Decode(c.file, []byte(text), flags); err != nil {
			t.Fatal(err)
		}
		found, err := s.inOrder()
		var names []string
		for _, m := range found {
			names = append(names, m.Name())
		}
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	var b bytes.Buffer
	logMode(slog.New(slog.NewTextHandler(&b, nil)), "nftables", []status.Fallback{{Mode: "ipvs"}, {Mode: "iptables"}})
	for _, want := range []string{"Can't use ipvs proxier, trying iptables proxier", "Can't use iptables proxier, trying nftables proxier",
		"Using nftables Proxier."} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

func TestModeReason(t *testing.T) {
	var s Setup
	if got := s.modeReason(); got != "this kernel's best mode" {
		t.Error(got)
	}
	s.Fallbacks = []status.Fallback{{Mode: "ipvs", Reason: "the kernel has no IPVS"}}
	if got := s.modeReason(); got != "ipvs cannot be used: the kernel has no IPVS" {
		t.Error(got)
	}
	s.Config.Mode, s.Config.ModeFallsBack = "ipvs", true
	if got := s.modeReason(); got != "ipvs cannot be used: the kernel has no IPVS" {
		t.Error(got)
	}
	s.Config.UseMode("iptables")
	if got := s.modeReason(); got != "" {
		t.Error(got)
	}
}

// Every thing that is missing is named once, and a reboot is the only hint where the modules of the running kernel are gone.
func TestExplain(t *testing.T) {
	none := &kernel.MissingError{What: "the kernel has no IPVS", Hint: "modprobe ip_vs"}
	err := errors.Join(none, fmt.Errorf("reading: %w", &kernel.MissingError{What: "no ipset", Hint: "modprobe ip_set"}), none)
	for unbooted, want := range map[string][2]string{
		"":      {"the kernel has no IPVS; no ipset", "modprobe ip_vs; modprobe ip_set"},
		"6.1.0": {"the kernel has no IPVS; no ipset: kernel 6.1.0 runs, and an upgrade removed its modules", "reboot"},
	} {
		if reason, hint := reasonOf(kernel.Missing(err), unbooted); reason != want[0] || hint != want[1] {
			t.Errorf("unbooted %q: %q, %q", unbooted, reason, hint)
		}
	}
}

// After a boot, perhaps of a kernel without the modules, or an upgrade, the rules of the last run are tried again.
func TestTrial(t *testing.T) {
	for _, c := range []struct {
		last          string
		tried, native bool
		loaded, want  bool
	}{
		{"ipvs nftables", true, true, true, false},
		{"ipvs nftables", false, true, true, true},
		{"ipvs", true, true, true, true},
		{"ipvs", true, false, false, false},
		{"ipvs", false, false, false, true},
		{"ipvs", false, false, true, false},
	} {
		s := Setup{Writes: true, lastMode: c.last, tried: c.tried}
		s.Config = config.Default()
		rules := s.trial(kernel.DefaultNames, way{new(ipvs.Mode), c.native}, func() bool { return c.loaded })
		if got := len(rules) > 0; got != c.want {
			t.Errorf("%+v: tried %v", c, got)
		}
	}
}

// rules.backend, the last run and the mode decide which back ends a start tries, and in which order.
func TestWays(t *testing.T) {
	for _, c := range []struct {
		backend, last string
		writes        bool
		want          string
	}{
		{config.BackendAuto, "", true, "ipvs, ipvs nftables"},
		{config.BackendAuto, "ipvs nftables", true, "ipvs, ipvs nftables"}, // what may be tried is
		{config.BackendAuto, "ipvs nftables", false, "ipvs nftables, ipvs"},
		{config.BackendAuto, "ipvs", false, "ipvs, ipvs nftables"},
		{config.BackendIPTables, "ipvs nftables", false, "ipvs"},
		{config.BackendNFTables, "", true, "ipvs nftables"},
	} {
		s := Setup{Writes: c.writes}
		s.Config = config.Default()
		s.Config.Rules.Backend, s.Config.StateDir = c.backend, t.TempDir()
		if c.last != "" {
			if err := host.KeepMode(s.Config.StateDir, c.last, "1.0"); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, w := range s.ways(new(ipvs.Mode)) {
			got = append(got, w.String())
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%+v: %s", c, text)
		}
		if got := s.ways(new(iptables.Mode)); len(got) != 1 || got[0].native {
			t.Errorf("mode iptables: %v", got)
		}
		if c.last == "" {
			continue
		}
		s.used = new(ipvs.Mode) // the running process
		if got := s.ways(s.used); len(got) != 1 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
