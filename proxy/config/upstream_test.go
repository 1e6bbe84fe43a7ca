package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// upstreamFlags are the flags of kube-proxy in the releases 1.6 to 1.36, as its
// reference pages, its help and its start-up logs list them.
const upstreamFlags = `
bind-address bind-address-hard-fail cleanup cluster-cidr config config-sync-period conntrack-max-per-core conntrack-min
conntrack-tcp-be-liberal conntrack-tcp-timeout-close-wait conntrack-tcp-timeout-established conntrack-udp-timeout
conntrack-udp-timeout-stream detect-local-mode feature-gates healthz-bind-address healthz-port help hostname-override init-only
iptables-localhost-nodeports iptables-masquerade-bit iptables-min-sync-period iptables-sync-period ipvs-exclude-cidrs
ipvs-min-sync-period ipvs-scheduler ipvs-strict-arp ipvs-sync-period ipvs-tcp-timeout ipvs-tcpfin-timeout ipvs-udp-timeout
kube-api-burst kube-api-content-type kube-api-qps kubeconfig log-flush-frequency logging-format masquerade-all master
metrics-bind-address metrics-port nodeport-addresses oom-score-adj pod-bridge-interface pod-interface-name-prefix profiling
proxy-mode show-hidden-metrics-for-version v version write-config-to

cleanup-iptables cleanup-ipvs conntrack-max google-json-key proxy-port-range resource-container udp-timeout

add_dir_header alsologtostderr log_backtrace_at log_dir log_file log_file_max_size logtostderr one_output skip_headers
skip_log_headers stderrthreshold vmodule log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size
log-text-split-stream

enable-dsr forward-healthcheck-vip network-name root-hnsendpoint-name source-vip windows-priorityclass windows-service

allow-verification-with-non-compliant-keys allow_dynamic_housekeeping application_metrics_count_limit
azure-container-registry-config boot_id_file cloud-provider-gce-l7lb-src-cidrs cloud-provider-gce-lb-src-cidrs container_hints
containerd containerd-namespace containerd_env_metadata_whitelist default-not-ready-toleration-seconds
default-unreachable-toleration-seconds disable_root_cgroup_stats docker docker-tls docker-tls-ca docker-tls-cert docker-tls-key
docker_env_metadata_whitelist docker_only docker_root enable_load_reader event_storage_age_limit event_storage_event_limit
global_housekeeping_interval housekeeping_interval log_cadvisor_usage machine_id_file max_housekeeping_interval
raw_cgroup_prefix_whitelist referenced_reset_interval storage_driver_buffer_duration storage_driver_db storage_driver_host
storage_driver_password storage_driver_secure storage_driver_table storage_driver_user update_machine_info_interval
`

// commandFlags are the upstream flags that the command defines, not this package.
var commandFlags = []string{"cleanup", "help", "init-only", "version"}

// Every flag of any kube-proxy is accepted, with - and with _, and no others.
func TestUpstreamFlags(t *testing.T) {
	fs := pflag.NewFlagSet("svcproxy", pflag.ContinueOnError)
	AddFlags(fs)
	var upstream []string
	for name := range strings.FieldsSeq(upstreamFlags) {
		dashed := strings.ReplaceAll(name, "_", "-")
		upstream = append(upstream, dashed)
		if slices.Contains(commandFlags, name) {
			if fs.Lookup(name) != nil {
				t.Errorf("--%s is the command's", name)
			}
			continue
		}
		for _, spelt := range []string{name, dashed, strings.ReplaceAll(name, "-", "_")} {
			if fs.Lookup(spelt) == nil {
				t.Errorf("no --%s", spelt)
			}
		}
	}
	fs.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(upstream, f.Name) {
			t.Errorf("--%s is not upstream's", f.Name)
		}
	})
	help := fs.FlagUsages()
	for _, shown := range []string{"--master", "--ipvs-scheduler", "-v, --v"} {
		if !strings.Contains(help, shown) {
			t.Errorf("the help lacks %s", shown)
		}
	}
	for _, hidden := range []string{"log-dir", "healthz-port", "docker", "windows"} {
		if strings.Contains(help, "--"+hidden) {
			t.Errorf("the help shows --%s", hidden)
		}
	}
}

// A flag without effect causes one warning, whatever its value, and takes a value if
// and only if it does upstream.
func TestIgnoredFlags(t *testing.T) {
	for _, group := range ignored {
		for name := range strings.FieldsSeq(group.switches) {
			ignoredOnce(t, name, "--"+name, "--"+name+"=false")
		}
		for name := range strings.FieldsSeq(group.valued) {
			ignoredOnce(t, name, "--"+name, "x", "--"+name+"=")
		}
	}
}

func ignoredOnce(t *testing.T, name string, args ...string) {
	t.Helper()
	fs := pflag.NewFlagSet("svcproxy", pflag.ContinueOnError)
	flags := AddFlags(fs)
	if err := fs.Parse(args); err != nil || fs.NArg() > 0 {
		t.Errorf("%q: %v, left %q", args, err, fs.Args())
		return
	}
	_, warnings, err := Decode("", nil, flags)
	if err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0].Message, "--"+name+" has no effect: ") {
		t.Errorf("%q: %v, %v", args, warnings, err)
	}
}

// upstreamFields are the fields of KubeProxyConfiguration v1alpha1 in the
// releases 1.28 to 1.36.
const upstreamFields = `
bindAddress bindAddressHardFail clientConnection.acceptContentTypes clientConnection.burst clientConnection.contentType
clientConnection.kubeconfig clientConnection.qps clusterCIDR configSyncPeriod conntrack.maxPerCore conntrack.min
conntrack.tcpBeLiberal conntrack.tcpCloseWaitTimeout conntrack.tcpEstablishedTimeout conntrack.udpStreamTimeout
conntrack.udpTimeout detectLocal.bridgeInterface detectLocal.interfaceNamePrefix detectLocalMode enableProfiling featureGates
healthzBindAddress hostnameOverride iptables.localhostNodePorts iptables.masqueradeAll iptables.masqueradeBit
iptables.minSyncPeriod iptables.snatNodeInternalIP iptables.syncPeriod ipvs.excludeCIDRs ipvs.minSyncPeriod ipvs.scheduler
ipvs.strictARP ipvs.syncPeriod ipvs.tcpFinTimeout ipvs.tcpTimeout ipvs.udpTimeout logging.flushFrequency logging.format
logging.options.json.infoBufferSize logging.options.json.splitStream logging.options.text.infoBufferSize
logging.options.text.splitStream logging.verbosity logging.vmodule metricsBindAddress mode nftables.masqueradeAll
nftables.masqueradeBit nftables.minSyncPeriod nftables.syncPeriod nodePortAddresses oomScoreAdj portRange
showHiddenMetricsForVersion windowsRunAsService winkernel.enableDSR winkernel.forwardHealthCheckVip winkernel.networkName
winkernel.rootHnsEndpointName winkernel.sourceVip
`

// Every field of KubeProxyConfiguration is a key or is known to have no effect. Every
// key is upstream's or is marked zero.
func TestUpstreamFields(t *testing.T) {
	upstream := strings.Fields(upstreamFields)
	for _, key := range upstream {
		if (fieldOf(key) == nil) == (whyUnused(key) == "") {
			t.Errorf("%s is no key, or has an effect and has none", key)
		}
	}
	for _, f := range allFields {
		if !slices.Contains(upstream, f.key) && !f.is(zero) {
			t.Errorf("%s is our own, and its zero means its default", f.key)
		}
	}
}

// The zero Flags have no flag given.
func TestZeroFlags(t *testing.T) {
	if _, _, err := Decode("", nil, &Flags{}); err != nil {
		t.Error(err)
	}
	var invalid *Error
	if _, _, err := Decode("", []byte("nothing"), nil); !errors.As(err, &invalid) {
		t.Errorf("got %v", err)
	}
}
