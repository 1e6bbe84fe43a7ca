package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/sources"
)

// ignored are flags of some release of kube-proxy that have no effect here. They are
// accepted, so that a command line with them still works. switches take no value.
// Many were not kube-proxy's own but came with a library.
var ignored = []struct{ why, switches, valued string }{
	{
		"the log goes to standard error, all of it",
		"add-dir-header alsologtostderr log-json-split-stream log-text-split-stream logtostderr one-output skip-headers " +
			"skip-log-headers",
		"log-backtrace-at log-dir log-file log-file-max-size log-json-info-buffer-size log-text-info-buffer-size " +
			"stderrthreshold vmodule",
	},
	{
		"it is for Windows",
		"enable-dsr forward-healthcheck-vip windows-service",
		"network-name root-hnsendpoint-name source-vip windows-priorityclass",
	},
	{
		"the kernel's virtual servers are taken over as they are",
		"cleanup-ipvs",
		"",
	},
	{
		"--conntrack-max-per-core and --conntrack-min are its heirs",
		"",
		"conntrack-max",
	},
	{
		"kube-proxy no longer has it",
		"",
		"google-json-key resource-container",
	},
	{
		"a library brought it to kube-proxy, which does not use it",
		"allow-dynamic-housekeeping allow-verification-with-non-compliant-keys disable-root-cgroup-stats docker-only " +
			"docker-tls enable-load-reader " +
			"log-cadvisor-usage storage-driver-secure",
		"application-metrics-count-limit azure-container-registry-config boot-id-file cloud-provider-gce-l7lb-src-cidrs " +
			"cloud-provider-gce-lb-src-cidrs container-hints containerd containerd-env-metadata-whitelist " +
			"containerd-namespace " +
			"default-not-ready-toleration-seconds default-unreachable-toleration-seconds docker docker-env-metadata-whitelist " +
			"docker-root " +
			"docker-tls-ca docker-tls-cert docker-tls-key event-storage-age-limit event-storage-event-limit " +
			"global-housekeeping-interval " +
			"housekeeping-interval machine-id-file max-housekeeping-interval raw-cgroup-prefix-whitelist " +
			"referenced-reset-interval " +
			"storage-driver-buffer-duration storage-driver-db storage-driver-host storage-driver-password " +
			"storage-driver-table " +
			"storage-driver-user update-machine-info-interval",
	},
}

// oldFlag is a flag that is accepted for old command lines and hidden in the help.
type oldFlag struct {
	name   string
	toggle bool
	why    string // it has no effect; "" if it has one
	given  bool
	text   string // what it was given last
}

func (f *oldFlag) String() string { return f.text }
func (f *oldFlag) Set(s string) error {
	f.given, f.text = true, s
	return nil
}
func (f *oldFlag) Type() string {
	if f.toggle {
		return "bool"
	}
	return "string"
}

// addOld defines the flags of older releases. It also lets every flag have _ for -,
// as in kube-proxy: --log_dir.
func (flags *Flags) addOld(fs *pflag.FlagSet) {
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	add := func(f *oldFlag) {
		pf := fs.VarPF(f, f.name, "", "")
		pf.Hidden = true
		if f.toggle {
			pf.NoOptDefVal = "true"
		}
		flags.old = append(flags.old, f)
	}
	for _, group := range ignored {
		for name := range strings.FieldsSeq(group.switches) {
			add(&oldFlag{name: name, toggle: true, why: group.why})
		}
		for name := range strings.FieldsSeq(group.valued) {
			add(&oldFlag{name: name, why: group.why})
		}
	}
	flags.healthzPort, flags.metricsPort = oldFlag{name: "healthz-port"}, oldFlag{name: "metrics-port"}
	flags.cleanupIPTables = oldFlag{name: "cleanup-iptables", toggle: true}
	for _, f := range []*oldFlag{&flags.healthzPort, &flags.metricsPort, &flags.cleanupIPTables} {
		add(f)
	}
}

// oldFlags applies the flags of older releases, and warns of those without effect.
func (d *decoder) oldFlags(flags *Flags) {
	for _, f := range flags.old {
		if f.given && f.why != "" {
			d.warnings = append(d.warnings, sources.Problem{Message: fmt.Sprintf("--%s has no effect: %s", f.name, f.why)})
		}
	}
	d.port(flags.healthzPort, "healthzBindAddress", &d.config.HealthzBindAddress)
	d.port(flags.metricsPort, "metricsBindAddress", &d.config.MetricsBindAddress)
	// Its caller expects the process to end, so it must not serve.
	if on, err := strconv.ParseBool(flags.cleanupIPTables.text); flags.cleanupIPTables.given && (on || err != nil) {
		d.problems = append(d.problems, sources.Problem{Message: "--cleanup-iptables is svcproxy cleanup, or --cleanup"})
	}
}

// port changes the port of a listener; 0 turns it off. The listener's own flag has
// address and port, and wins.
func (d *decoder) port(f oldFlag, key string, p *netip.AddrPort) {
	if !f.given {
		return
	}
	port, err := strconv.ParseUint(f.text, 10, 16)
	if err != nil {
		d.problems = append(d.problems, sources.Problem{Message: fmt.Sprintf("--%s %q must be 0 to 65535", f.name, f.text)})
		return
	}
	d.warnings = append(d.warnings, sources.Problem{Message: fmt.Sprintf("--%s is old: write --%s with address and port",
		f.name, fieldOf(key).flag)})
	switch {
	case d.origins[key].flag != "":
		return
	case port == 0:
		*p = netip.AddrPort{}
	case p.IsValid():
		*p = netip.AddrPortFrom(p.Addr(), uint16(port))
	}
	d.origins[key] = origin{flag: "--" + f.name}
}
