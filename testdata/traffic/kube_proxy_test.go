package traffic

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// kubeProxyBinary is what `make apiserver` builds and links.
const kubeProxyBinary = "../../bin/kube-proxy"

// A kubeProxyNode is a node of a cluster, which a real kube-proxy serves, or svcproxy with the same configuration.
type kubeProxyNode struct {
	node
	mode string // in kube-proxy's configuration
	api  *lab.Objects
	load *load
	held []*lab.Conn
	stop func() // of kube-proxy
}

// kubeProxyWeb are a Service with every kind of address, and its EndpointSlices.
func kubeProxyWeb() (services, slices string) {
	ports := func(key, value string) string {
		return fmt.Sprintf(`"ports": [{"name": "tcp", "protocol": "TCP", "port": %[1]s%[2]s}, {"name": "udp", "protocol": "UDP", "port": %[1]s%[2]s}]`, key, value)
	}
	services = `{"metadata": {"namespace": "default", "name": "web", "uid": "1"}, "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.20",
		"clusterIPs": ["10.96.0.20", "fd00:96::20"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack", "sessionAffinity": "None",
		"externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster", "externalIPs": ["203.0.113.9", "2001:db8:9::9"],
		` + ports("80", `, "targetPort": 7000, "nodePort": 30080`) + `},
		"status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.80", "ipMode": "VIP"}, {"ip": "2001:db8:80::80", "ipMode": "VIP"}]}}}`
	var all []string
	for family, addr := range map[string]string{"IPv4": "10.2.%d.10", "IPv6": "fd00:2:%d::10"} {
		var endpoints []string
		for i := range 3 {
			endpoints = append(endpoints, fmt.Sprintf(`{"addresses": [%q], "conditions": {"ready": true}}`, fmt.Sprintf(addr, i+1)))
		}
		all = append(all, fmt.Sprintf(`{"metadata": {"namespace": "default", "name": "web-%s", "labels": {"kubernetes.io/service-name": "web"}}, "addressType": %q, %s,
			"endpoints": [%s]}`, strings.ToLower(family), family, ports("7000", ""), strings.Join(endpoints, ", ")))
	}
	return services, strings.Join(all, ", ")
}

// newNodeOfObjects returns a node of a cluster with these Services and EndpointSlices.
func newNodeOfObjects(t *testing.T, mode, services, slices string) *kubeProxyNode {
	t.Helper()
	o := &kubeProxyNode{node: newNode(t, ""), mode: mode}
	o.tool(t, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	server, err := o.Lab.Node.ServeObjects(filepath.Join(o.Dir, "kubeconfig"), services, slices)
	must(t, err)
	t.Cleanup(func() { server.Close() })
	o.api = server
	o.File = filepath.Join(o.Dir, "config.yaml")
	o.configure(t, mode)
	return o
}

// configure writes the file that both programs read. kube-proxy ignores svcproxy's keys.
func (o *kubeProxyNode) configure(t *testing.T, mode string) {
	t.Helper()
	must(t, os.WriteFile(o.File, fmt.Appendf(nil, `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: %q
hostnameOverride: node
clusterCIDR: 10.2.0.0/16,fd00:2::/32
clientConnection: {kubeconfig: %q, contentType: application/json, acceptContentTypes: application/json}
conntrack: {maxPerCore: 0}
stateDir: %q
runtimeDir: %q
`, mode, filepath.Join(o.Dir, "kubeconfig"), filepath.Join(o.Dir, "state"), filepath.Join(o.Dir, "run")), 0o644))
}

// startKubeProxy starts kube-proxy and waits until it has programmed both families.
func (o *kubeProxyNode) startKubeProxy(t *testing.T) {
	t.Helper()
	binary, err := filepath.Abs(kubeProxyBinary)
	must(t, err)
	o.configure(t, o.mode)
	var log lab.Log
	cmd := exec.Command(binary, "--config", o.File)
	cmd.Stdout, cmd.Stderr = &log, &log
	must(t, o.Lab.Node.Start(cmd))
	o.stop = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	t.Cleanup(func() {
		o.stop()
		if t.Failed() {
			t.Logf("kube-proxy:\n%s", log.String())
		}
	})
	limit := patience
	if emulated() { // kube-proxy has taken four minutes from its start to its second family
		limit *= 5
	}
	must(t, lab.Eventually(limit, func() error {
		metrics, err := o.metrics()
		if err == nil && len(kubeProxySynced.FindAllString(metrics, -1)) < 2 {
			err = errors.New("kube-proxy has not programmed both families")
		}
		return err
	}))
}

// kubeProxySynced matches the metric of each family that kube-proxy has programmed.
var kubeProxySynced = regexp.MustCompile(`(?m)^kubeproxy_sync_proxy_rules_last_timestamp_seconds\{.* [1-9]`)

// kubeProxyTimes matches when each family was to be programmed, and when it was.
var kubeProxyTimes = regexp.MustCompile(`(?m)^kubeproxy_sync_proxy_rules_last_(queued_)?timestamp_seconds\{ip_family="(IPv[46])"\} (.*)$`)

// pending reports whether kube-proxy has something to program: it makes virtual servers before it lets clients in.
func (o *kubeProxyNode) pending(t *testing.T) bool {
	t.Helper()
	metrics, err := o.metrics()
	must(t, err)
	late := map[string]float64{} // by family
	for _, m := range kubeProxyTimes.FindAllStringSubmatch(metrics, -1) {
		at, err := strconv.ParseFloat(m[3], 64)
		must(t, err)
		if m[1] == "" {
			at = -at
		}
		late[m[2]] += at
	}
	if len(late) != 2 {
		t.Fatalf("kube-proxy does not say when it programmed both families:\n%s", metrics)
	}
	return late["IPv4"] > 0 || late["IPv6"] > 0
}

// metrics are those of what serves the node.
func (o *kubeProxyNode) metrics() (string, error) {
	r, err := o.Lab.Node.HTTP(10 * time.Second).Get("http://127.0.0.1:10249/metrics")
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return string(text), err
}

// series are the names of kube-proxy's metrics, with the keys of their labels, the buckets and the tables.
func (o *kubeProxyNode) series(t *testing.T) map[string]bool {
	t.Helper()
	metrics, err := o.metrics()
	must(t, err)
	found := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^(kubeproxy_\S+|kubernetes_build_info\{.*\}) `).FindAllStringSubmatch(metrics, -1) {
		found[labelValue.ReplaceAllStringFunc(line[1], func(label string) string {
			key, _, _ := strings.Cut(label, "=")
			if key == "le" || key == "table" || key == "ip_family" {
				return label
			}
			return key
		})] = true
	}
	return found
}

var labelValue = regexp.MustCompile(`\w+="[^"]*"`)

// wantSeries wants svcproxy to have all series of kube-proxy, but for the counters of nfnetlink_acct.
func (o *kubeProxyNode) wantSeries(t *testing.T, theirs map[string]bool) {
	t.Helper()
	ours := o.series(t)
	for s := range theirs {
		if !ours[s] && s != "kubeproxy_iptables_ct_state_invalid_dropped_packets_total" && s != "kubeproxy_iptables_localhost_nodeports_accepted_packets_total" {
			t.Errorf("no metric %s", s)
		}
	}
	if len(theirs) < 70 { // a kernel without nfnetlink_acct has no counters for some
		t.Errorf("kube-proxy has only %d series", len(theirs))
	}
}

// use holds 100 connections, and has clients ask all addresses from now on.
func (o *kubeProxyNode) use(t *testing.T) {
	t.Helper()
	o.load = newLoad(t)
	all := append([]string{"192.0.2.1:30080", "[2001:db8::1]:30080"}, everywhere...)
	for i, to := range all {
		addr := netip.MustParseAddrPort(to)
		o.held = append(o.held, o.node.held(t, addr, 100/len(all)+i%2)...)
		o.load.add(to, func() error { _, err := o.Client.Ask("tcp", addr); return err })
	}
	udp := netip.MustParseAddrPort(everywhere[0])
	o.load.add("udp "+everywhere[0], func() error { _, err := o.Client.Ask("udp", udp); return err })
}

// served wants all held connections to live, after more new ones.
func (o *kubeProxyNode) served(t *testing.T, when string) {
	t.Helper()
	t.Log(when)
	o.load.goOn(t, 100)
	if lost := unanswered(o.held); lost > 0 {
		t.Errorf("%s: %d of %d connections are lost", when, lost, len(o.held))
	}
}

// cleanup runs svcproxy cleanup beside kube-proxy. It must end with a code, and what it removes must be svcproxy's alone:
// kube-proxy has none of the names below, and no others are removed. In mode ipvs all is kube-proxy's.
func (o *kubeProxyNode) cleanup(t *testing.T, when string, want int) {
	t.Helper()
	before := o.read(t)
	if out, code, err := o.Command("cleanup"); err != nil || code != want {
		t.Errorf("%s: cleanup: exit code %d, %v, want %d\n%s", when, code, err, want, out)
	}
	after := o.read(t)
	for line := range strings.Lines(lab.Diff(before, after)) {
		if !neverKubeProxys.MatchString(line) {
			t.Errorf("%s: cleanup changed %s", when, line)
		}
	}
	if o.mode != "ipvs" {
		for _, line := range after.Lines() {
			if neverKubeProxys.MatchString(line) {
				t.Errorf("%s: cleanup left %s", when, line)
			}
		}
	}
	o.served(t, when+", cleanup")
}

// neverKubeProxys are words of rules, sets and addresses that svcproxy has and kube-proxy's mode iptables does not.
var neverKubeProxys = regexp.MustCompile("KUBE-(6-)?(VIP-FILTER|IPVS-|LOAD-BALANCER|NODE-PORT|SOURCE-RANGES|VIRTUAL-SERVER|CLUSTER-IP|" +
	"EXTERNAL-IP|LOOP-BACK|HEALTH-CHECK)|kube-ipvs0|^- (-A -[tu]|-a -[tu]) |proto 143|svcproxy")

// A node goes from a real kube-proxy to svcproxy and back, as the migration page says. Of 100 connections none ends, new ones
// are answered at all times, and cleanup removes nothing that kube-proxy serves with.
func TestThereAndBackWithKubeProxy(t *testing.T) {
	notUserspace(t)
	if emulated() && os.Getenv("SVCPROXY_ENDURANCE") == "" {
		t.Skip("takes a quarter of an hour in a guest: make test-endurance")
	}
	if _, err := os.Stat(kubeProxyBinary); err != nil {
		t.Skipf("no kube-proxy: make apiserver builds it: %v", err)
	}
	for _, mode := range []string{modeToTest(), ""} {
		t.Run(fmt.Sprintf("mode %q", mode), func(t *testing.T) {
			services, slices := kubeProxyWeb()
			o := newNodeOfObjects(t, mode, services, slices)
			beside := 0
			if mode == "ipvs" {
				beside = 1 // cleanup refuses: kube-proxy has taken all over
			}
			o.startKubeProxy(t)
			theirs := o.series(t)
			o.use(t)
			o.served(t, "kube-proxy")
			o.cleanup(t, "kube-proxy", beside)
			o.stop()
			must(t, o.Start())
			o.wellServed(t, "taken over")
			if mode != "" && mode != "nftables" { // for which kube-proxy has series of its own: full and partial syncs
				o.wantSeries(t, theirs)
			}
			if modeToTest() == "ipvs" && mode == "" { // back to iptables first, so that no connection is in IPVS any more
				must(t, o.Stop())
				o.configure(t, "iptables")
				must(t, o.Start())
				o.wellServed(t, "in mode iptables")
			}
			must(t, o.Stop())
			o.startKubeProxy(t)
			o.served(t, "given back")
			o.cleanup(t, "given back", beside)
			o.load.wantServed(t)
		})
	}
}

// wellServed waits until svcproxy has programmed everything.
func (o *kubeProxyNode) wellServed(t *testing.T, when string) {
	t.Helper()
	must(t, lab.Eventually(patience, func() error {
		if out, code, err := o.Command("reload", "--wait"); err != nil || code != 0 {
			return fmt.Errorf("%s: reload --wait: exit code %d, %v\n%s", when, code, err, out)
		}
		return nil
	}))
	o.served(t, when)
}

// Services move from a real kube-proxy to svcproxy on the same node and back, one at a time, by their label. The other
// service loses nothing at any time, whoever serves it.
func TestOneServiceAtATime(t *testing.T) {
	notUserspace(t)
	if emulated() && os.Getenv("SVCPROXY_ENDURANCE") == "" {
		t.Skip("kube-proxy takes minutes to start in a guest: make test-endurance")
	}
	if _, err := os.Stat(kubeProxyBinary); err != nil {
		t.Skipf("no kube-proxy: make apiserver builds it: %v", err)
	}
	// A kube-proxy in mode ipvs removes virtual servers that it does not know: svcproxy-migration(7) says mode nftables then.
	for _, c := range []struct{ theirs, ours string }{{theirs: "iptables"}, {theirs: "nftables"}, {theirs: "ipvs", ours: "nftables"}} {
		t.Run("beside mode "+c.theirs, func(t *testing.T) {
			if c.theirs == "ipvs" {
				kerneltest.Need(t, kerneltest.IPVS, kerneltest.Dummy)
			}
			web, slices := kubeProxyWeb()
			shop := strings.NewReplacer(`"web`, `"shop`, "10.96.0.20", "10.96.0.21", "fd00:96::20", "fd00:96::21", "203.0.113.9", "203.0.113.10",
				"2001:db8:9::9", "2001:db8:9::a", "198.51.100.80", "198.51.100.81", "2001:db8:80::80", "2001:db8:80::81", "30080", "30081")
			o := newNodeOfObjects(t, c.theirs, web+", "+shop.Replace(web), slices+", "+shop.Replace(slices))
			ours := func(service string) string {
				return strings.Replace(service, `"uid": "1"`, `"uid": "1", "labels": {"service.kubernetes.io/service-proxy-name": "svcproxy"}`, 1)
			}
			o.startKubeProxy(t)
			if c.ours != "" {
				o.Mode = c.ours
			}
			o.File = filepath.Join(o.Dir, "svcproxy.toml")
			must(t, o.Configure(fmt.Sprintf("ipvs.namePrefix = \"EDGE\"\nipvs.deviceName = \"svcproxy0\"\nclientConnection.kubeconfig = %q\nsources.apiserver.proxyName = \"svcproxy\"\nsources.apiserver.emptyGrace = \"0s\"\n",
				filepath.Join(o.Dir, "kubeconfig"))))
			mark := o.Log.Len()
			must(t, o.Start())
			o.synced(t, mark)

			asked := func(service string, vips ...string) (ends func()) {
				l := newLoad(t)
				var held []*lab.Conn
				for _, vip := range vips {
					addr := netip.MustParseAddrPort(vip)
					held = append(held, o.node.held(t, addr, 25)...)
					l.add(service+" at "+vip, func() error { _, err := o.Client.Ask("tcp", addr); return err })
				}
				return func() {
					t.Helper()
					l.goOn(t, 100)
					if lost := unanswered(held); lost > 0 {
						t.Errorf("%d of %d connections of %s are lost", lost, len(held), service)
					}
					l.wantServed(t)
				}
			}
			ofWeb := []string{"10.96.0.20:80", "[fd00:96::20]:80", "198.51.100.80:80", "192.0.2.1:30080"}
			ofShop := []string{"10.96.0.21:80", "[fd00:96::21]:80", "198.51.100.81:80", "192.0.2.1:30081"}
			steps := []struct {
				objects string
				served  int // by svcproxy
				still   string
				vips    []string
				moved   []string
			}{
				{ours(web) + ", " + shop.Replace(web), 1, "shop", ofShop, ofWeb},
				{ours(web) + ", " + ours(shop.Replace(web)), 2, "web", ofWeb, ofShop},
				{web + ", " + ours(shop.Replace(web)), 1, "shop", ofShop, ofWeb},
				{web + ", " + shop.Replace(web), 0, "web", ofWeb, ofShop},
			}
			for i, step := range steps {
				end := asked(step.still, step.vips...)
				o.api.SetServices(step.objects)
				must(t, lab.Eventually(patience, func() error {
					out, _, err := o.Command("status")
					if err == nil && !strings.Contains(out, fmt.Sprintf("\n%d service", step.served)) {
						err = fmt.Errorf("step %d: want %d services of svcproxy's:\n%s", i, step.served, out)
					}
					if err == nil && step.served < 2 && !strings.Contains(out, "left to other proxies: ") {
						err = fmt.Errorf("step %d: the services of kube-proxy are not named:\n%s", i, out)
					}
					return err
				}))
				if c.theirs == "ipvs" { // a Service that goes back has neither svcproxy's rules nor kube-proxy's servers for a moment
					o.says(t, 0, "reload --wait")
					must(t, lab.Eventually(patience, func() error {
						servers, err := o.Lab.Node.Run("ipvsadm", "-Sn")
						for _, vip := range step.moved {
							if theirs := i >= 2; err == nil && strings.Contains(servers, "-A -t "+vip+" ") != theirs {
								err = fmt.Errorf("step %d: want %s as kube-proxy's: %t\n%s", i, vip, theirs, servers)
							}
						}
						if err == nil && o.pending(t) {
							err = fmt.Errorf("step %d: kube-proxy is not ready", i)
						}
						return err
					}))
				}
				for _, vip := range step.moved {
					addr := netip.MustParseAddrPort(vip)
					must(t, lab.Eventually(patience, func() error { _, err := o.Client.Ask("tcp", addr); return err }))
				}
				end()
			}
			must(t, o.Stop())
			if out, code, err := o.Command("cleanup"); err != nil || code != 0 {
				t.Errorf("cleanup: exit code %d, %v\n%s", code, err, out)
			}
			asked("web", ofWeb...)()
			asked("shop", ofShop...)()
		})
	}
}
