package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
)

// Samples of kube-proxy's configuration load. Every value that is not listed here is
// the default.
func TestSamples(t *testing.T) {
	for name, want := range map[string]struct{ values, warnings string }{
		"full.yaml": {`
mode = "ipvs"
bindAddress = "192.0.2.10"
bindAddressHardFail = true
healthzBindAddress = "192.0.2.10:20256"
metricsBindAddress = "0.0.0.0:10249"
enableProfiling = true
showHiddenMetricsForVersion = "1.34"
hostnameOverride = "Node-1"
configSyncPeriod = "10m"
clusterCIDR = "10.244.0.0/16,fd00:10:244::/56"
detectLocalMode = "BridgeInterface"
nodePortAddresses = ["192.0.2.0/24"]
portRange = "10000-10100"
oomScoreAdj = -998
featureGates = { "AnotherGate" = false, "SomeGate" = true }
detectLocal.bridgeInterface = "cni0"
detectLocal.interfaceNamePrefix = "veth"
iptables.masqueradeAll = true
iptables.masqueradeBit = 15
iptables.localhostNodePorts = true
iptables.syncPeriod = "1m"
iptables.minSyncPeriod = "2s"
ipvs.scheduler = "wlc"
ipvs.syncPeriod = "45s"
ipvs.minSyncPeriod = "500ms"
ipvs.excludeCIDRs = ["198.51.100.0/24", "2001:db8:1::/48"]
ipvs.strictARP = true
ipvs.tcpTimeout = "15m"
ipvs.tcpFinTimeout = "2m"
ipvs.udpTimeout = "5m"
conntrack.maxPerCore = 16384
conntrack.min = 65536
conntrack.tcpEstablishedTimeout = "12h"
conntrack.tcpCloseWaitTimeout = "30m"
conntrack.tcpBeLiberal = true
conntrack.udpTimeout = "1m"
conntrack.udpStreamTimeout = "5m"
clientConnection.kubeconfig = "/var/lib/kube-proxy/kubeconfig.conf"
clientConnection.acceptContentTypes = "application/json"
clientConnection.contentType = "application/json"
clientConnection.qps = 7.5
clientConnection.burst = 20
logging.format = "json"
logging.verbosity = 2
logging.flushFrequency = "3s"
sources.apiserver.enabled = true
`, `
full.yaml:26: detectLocal.interfaceNamePrefix has no effect without detectLocalMode = "InterfaceNamePrefix"
full.yaml:29: featureGates gate AnotherGate is not known here and has no effect
full.yaml:29: featureGates gate SomeGate is not known here and has no effect
full.yaml:35: iptables.localhostNodePorts has an effect only in mode iptables: in others loopback addresses do not serve node ports
full.yaml:39: iptables.snatNodeInternalIP has no effect: masqueraded traffic has the address of its interface
full.yaml:42: ipvs.excludeCIDRs has no effect without ipvs.deleteUnknown = true: foreign virtual servers stay anyway
full.yaml:57: logging.options.json.infoBufferSize has no effect: the log is one stream without buffers or rules by file
full.yaml:58: logging.options.json.splitStream has no effect: the log is one stream without buffers or rules by file
full.yaml:60: logging.options.text.infoBufferSize has no effect: the log is one stream without buffers or rules by file
full.yaml:61: logging.options.text.splitStream has no effect: the log is one stream without buffers or rules by file
full.yaml:63: logging.vmodule has no effect: the log is one stream without buffers or rules by file
full.yaml:69: nftables.masqueradeAll has no effect: the mode is not nftables
full.yaml:70: nftables.masqueradeBit has no effect: the mode is not nftables
full.yaml:71: nftables.minSyncPeriod has no effect: the mode is not nftables
full.yaml:72: nftables.syncPeriod has no effect: the mode is not nftables
full.yaml:79: windowsRunAsService has no effect: it is for Windows
full.yaml:81: winkernel.enableDSR has no effect: it is for Windows
full.yaml:82: winkernel.forwardHealthCheckVip has no effect: it is for Windows
full.yaml:83: winkernel.networkName has no effect: it is for Windows
full.yaml:84: winkernel.rootHnsEndpointName has no effect: it is for Windows
full.yaml:85: winkernel.sourceVip has no effect: it is for Windows
`},
		"kubeadm-configmap.yaml": {`
clusterCIDR = "10.244.0.0/16"
ipvs.scheduler = "rr"
clientConnection.kubeconfig = "/var/lib/kube-proxy/kubeconfig.conf"
sources.apiserver.enabled = true
`, `
kubeadm-configmap.yaml:39: iptables.localhostNodePorts is not set, which is true for kube-proxy and false here: 127.0.0.1 does not serve node ports; in mode iptables localhostNodePorts: true makes it, and sets route_localnet
kubeadm-configmap.yaml:63: mode "" is iptables for kube-proxy, and here this kernel's best one, ipvs where it has that: write mode: iptables to keep it
`},
		"v1.28.yaml": {`
mode = "ipvs"
bindAddress = "::"
healthzBindAddress = "[::]:10256"
metricsBindAddress = "[::1]:10249"
hostnameOverride = "worker-3"
clusterCIDR = "fd00:10:244::/56"
detectLocalMode = "InterfaceNamePrefix"
oomScoreAdj = 0
detectLocal.interfaceNamePrefix = "cali"
iptables.masqueradeBit = 0
ipvs.scheduler = "sh"
ipvs.strictARP = true
conntrack.maxPerCore = 0
conntrack.min = 0
conntrack.tcpEstablishedTimeout = "0s"
conntrack.tcpCloseWaitTimeout = "0s"
clientConnection.kubeconfig = "/var/lib/kube-proxy/kubeconfig"
sources.apiserver.enabled = true
`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("../../testdata/samples", name))
			if err != nil {
				t.Fatal(err)
			}
			// The extension is no more than a hint: kube-proxy's file is
			// often called config.conf.
			for _, as := range []string{name, strings.TrimSuffix(name, ".yaml")} {
				c, warnings, err := Decode(as, data, nil)
				if err != nil {
					t.Fatal(err)
				}
				compare(t, "values", changed(c), strings.TrimPrefix(want.values, "\n"))
				warnings = slices.DeleteFunc(warnings, func(p sources.Problem) bool { return strings.HasSuffix(p.Message, notYet) })
				compare(t, "warnings", strings.ReplaceAll(lines(warnings), as+":", name+":"), strings.TrimPrefix(want.warnings, "\n"))
			}
		})
	}
}
