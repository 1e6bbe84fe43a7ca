package traffic

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A policed service is one of kube-proxy's: with every kind of address, its policies and its endpoints. pod1 is on
// this node, pod2 on another.
type policed struct {
	number             int
	external, internal string
	endpoints          string // here, there, and with a minus those that terminate
	ranges             string // source ranges, as JSON
	affinity           string
}

// placings are the endpoints that the services have.
var placings = []string{"", "here", "there", "here there", "-here", "-there", "-here there", "here -there"}

// sourceRanges are the source ranges that they have in turn: none, two without the node, and some with it.
var sourceRanges = []string{`[]`, `["192.0.2.50/32", "2001:db8::50/128"]`, `["192.0.2.50/32", "192.0.2.1/32", "10.2.0.0/16", "2001:db8::50/128", "2001:db8::1/128"]`}

// allPoliced are services with all policies and all endpoints.
func allPoliced() (all []policed) {
	for _, endpoints := range placings {
		for _, external := range []string{"Cluster", "Local"} {
			for _, internal := range []string{"Cluster", "Local"} {
				all = append(all, policed{len(all) + 20, external, internal, endpoints, sourceRanges[len(all)%3], "None"})
			}
		}
	}
	return append(all, policed{len(all) + 20, "Cluster", "Cluster", "here there", sourceRanges[0], "ClientIP"},
		policed{len(all) + 21, "Local", "Cluster", "here there", sourceRanges[0], "ClientIP"})
}

func (p policed) String() string {
	return fmt.Sprintf("external %s, internal %s, endpoints %q, ranges %s, affinity %s", p.external, p.internal, p.endpoints, p.ranges, p.affinity)
}

// objects returns the Service and its EndpointSlices.
func (p policed) objects() (service, slices string) {
	service = fmt.Sprintf(`{"metadata": {"namespace": "default", "name": "s%[1]d", "uid": "%[1]d"}, "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.%[1]d",
		"clusterIPs": ["10.96.0.%[1]d", "fd00:96::%[1]d"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack", "sessionAffinity": %[5]q,
		"externalTrafficPolicy": %[2]q, "internalTrafficPolicy": %[3]q, "externalIPs": ["203.0.113.%[1]d", "2001:db8:9::%[1]d"], "loadBalancerSourceRanges": %[4]s,
		"ports": [{"name": "tcp", "protocol": "TCP", "port": 80, "targetPort": 7000, "nodePort": 30%03[1]d},
			{"name": "udp", "protocol": "UDP", "port": 80, "targetPort": 7000, "nodePort": 30%03[1]d}]},
		"status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.%[1]d", "ipMode": "VIP"}, {"ip": "2001:db8:80::%[1]d", "ipMode": "VIP"}]}}}`,
		p.number, p.external, p.internal, p.ranges, p.affinity)
	if p.affinity != "None" {
		service = strings.Replace(service, `"externalTraffic`, `"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}, "externalTraffic`, 1)
	}
	var all []string
	for family, addr := range map[string]string{"IPv4": "10.2.%d.10", "IPv6": "fd00:2:%d::10"} {
		var endpoints []string
		for e := range strings.FieldsSeq(p.endpoints) {
			place, terminating := strings.CutPrefix(e, "-")
			pod, node := 1, "node"
			if place == "there" {
				pod, node = 2, "other"
			}
			endpoints = append(endpoints, fmt.Sprintf(`{"addresses": [%q], "nodeName": %q, "conditions": {"ready": %t, "serving": true, "terminating": %t}}`,
				fmt.Sprintf(addr, pod), node, !terminating, terminating))
		}
		all = append(all, fmt.Sprintf(`{"metadata": {"namespace": "default", "name": "s%d-%s", "labels": {"kubernetes.io/service-name": "s%[1]d"}}, "addressType": %[3]q,
			"ports": [{"name": "tcp", "protocol": "TCP", "port": 7000}, {"name": "udp", "protocol": "UDP", "port": 7000}], "endpoints": [%[4]s]}`,
			p.number, strings.ToLower(family), family, strings.Join(endpoints, ", ")))
	}
	return service, strings.Join(all, ", ")
}

// fronts are where the service is asked for, with what they are called.
func (p policed) fronts() map[string]string {
	all := map[string]string{}
	for name, to := range map[string]string{
		"cluster IP": "10.96.0.%d:80", "cluster IP of IPv6": "[fd00:96::%d]:80",
		"external IP": "203.0.113.%d:80", "external IP of IPv6": "[2001:db8:9::%d]:80",
		"load balancer IP": "198.51.100.%d:80", "load balancer IP of IPv6": "[2001:db8:80::%d]:80",
		"node port": "192.0.2.1:30%03d", "node port of IPv6": "[2001:db8::1]:30%03d",
		"node port at another address": "10.2.3.1:30%03d",
		"a port of the host":           "10.96.0.%d:2222", "a port of the host of IPv6": "[fd00:96::%d]:2222",
	} {
		all[name] = fmt.Sprintf(to, p.number)
	}
	return all
}

// An asker is a host with an address of each family.
type asker struct {
	name string
	of   func(l *lab.Lab) *lab.Host
	from [2]netip.Addr // zero: any
}

// askers ask from all places that rules tell apart.
var askers = []asker{
	{"a client", func(l *lab.Lab) *lab.Host { return l.Client }, [2]netip.Addr{outside4, outside6}},
	{"a client of the ranges", func(l *lab.Lab) *lab.Host { return l.Client }, [2]netip.Addr{inSlash32, inSlash128}},
	{"the node", func(l *lab.Lab) *lab.Host { return l.Node }, [2]netip.Addr{}},
	{"an endpoint", func(l *lab.Lab) *lab.Host { return l.Backend("pod1").Host }, [2]netip.Addr{}},
	{"a workload", func(l *lab.Lab) *lab.Host { return l.Backend("pod3").Host }, [2]netip.Addr{}},
}

// ownAddrs are addresses of the node from which it may ask.
var ownAddrs = []netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("fd00:2:1::1"), netip.MustParseAddr("fd00:2:2::1"), netip.MustParseAddr("fd00:2:3::1")}

// A verdict is what became of one question: refused, lost, or who answered and whom it saw.
func (a asker) verdict(o *kubeProxyNode, network string, to netip.AddrPort, limit time.Duration) string {
	host, from := a.of(o.Lab), a.from[0]
	if to.Addr().Is6() {
		from = a.from[1]
	}
	answer, err := host.AskWithin(network, from, to, limit)
	seen := answer.Client.Addr()
	switch {
	case errors.Is(err, unix.EPERM), err != nil && network == "udp" && host.Name == "node":
		return "not sent" // a datagram of the node's own: rules at output say no more
	case errors.Is(err, unix.ECONNREFUSED):
		return "refused"
	case errors.Is(err, lab.ErrSilence):
		return lost
	case err != nil:
		return err.Error()
	case seen == linkTo(answer.Backend, to.Addr()), host.Name == "node" && slices.Contains(ownAddrs, seen): // IPv6 chooses by the way
		return answer.Backend + " sees the node"
	case seen == host.Addr(to.Addr()) || seen == from:
		return answer.Backend + " sees the asker"
	}
	return answer.Backend + " sees " + seen.String()
}

// verdicts asks both nodes until the verdicts have been the same, but at least six times if a question is answered.
func (a asker) verdicts(theirs, ours *kubeProxyNode, network string, to netip.AddrPort, affine bool) (their, our []string) {
	for _, limit := range []time.Duration{400 * time.Millisecond, 4 * time.Second} { // the second for a slow machine
		sets := [2]map[string]bool{{}, {}}
		for try := range 40 {
			var now [2]string
			var both sync.WaitGroup
			for i, o := range []*kubeProxyNode{theirs, ours} {
				both.Go(func() { now[i] = a.verdict(o, network, to, limit) })
			}
			both.Wait()
			for i, v := range now {
				if at := strings.Index(v, "sees"); affine && at > 0 { // which one is not the same
					v = v[at:]
				}
				sets[i][v] = true
			}
			their, our = slices.Sorted(maps.Keys(sets[0])), slices.Sorted(maps.Keys(sets[1]))
			unanswered := !strings.Contains(now[0]+now[1], "sees")
			if same := slices.Equal(their, our); same && (unanswered || try >= 5) {
				return their, our
			} else if !same && unanswered && try >= 1 {
				break
			}
		}
	}
	return their, our
}

// kube-proxy's mode nftables and ours, with the same configuration and the same objects, serve, refuse and drop the same
// packets, choose from the same endpoints and masquerade the same clients.
func TestVerdictsAreKubeProxys(t *testing.T) {
	if _, err := os.Stat(kubeProxyBinary); err != nil {
		t.Skipf("no kube-proxy: make apiserver builds it: %v", err)
	}
	if emulated() {
		t.Skip("compares rules that are the same in a guest, where kube-proxy takes minutes")
	}
	names(t, modeNFTables)
	all := allPoliced()
	var services, endpointSlices []string
	for _, p := range all {
		service, s := p.objects()
		services, endpointSlices = append(services, service), append(endpointSlices, s)
	}
	node := func() *kubeProxyNode {
		o := newNodeOfObjects(t, "nftables", strings.Join(services, ", "), strings.Join(endpointSlices, ", "))
		for _, a := range []netip.Addr{inSlash32, inSlash128, outside4, outside6} {
			must(t, o.Client.IP(fmt.Sprintf("addr add %s/%d dev eth0 nodad", a, a.BitLen())))
		}
		// kube-proxy binds no addresses. A node finds the way to them by its default route.
		must(t, o.Lab.Node.IP("route del unreachable 10.96.0.0/12", "route del unreachable 198.51.100.0/24", "route del unreachable 203.0.113.0/24",
			"route replace default via 192.0.2.2", "route replace default via 2001:db8::2"))
		host, err := o.Lab.Node.Listen(2222)
		must(t, err)
		t.Cleanup(func() { host.Close() })
		return o
	}
	theirs, ours := node(), node()
	theirs.startKubeProxy(t)
	must(t, ours.Start())
	must(t, lab.Eventually(patience, func() error {
		if out, code, err := ours.Command("reload", "--wait"); err != nil || code != 0 {
			return fmt.Errorf("reload --wait: exit code %d, %v\n%s", code, err, out)
		}
		return nil
	}))

	var mu sync.Mutex
	counts, places := map[string]int{}, make(chan struct{}, 16)
	var asked sync.WaitGroup
	for _, p := range all {
		for kind, to := range p.fronts() {
			for _, network := range []string{"tcp", "udp"} {
				if network == "udp" && strings.Contains(kind, "IPv6") {
					continue // as TCP
				}
				for _, a := range askers {
					if p.affinity != "None" && a.name == "an endpoint" {
						continue // sees the node or itself by who is chosen
					}
					asked.Go(func() {
						places <- struct{}{}
						defer func() { <-places }()
						their, our := a.verdicts(theirs, ours, network, netip.MustParseAddrPort(to), p.affinity != "None")
						mu.Lock()
						defer mu.Unlock()
						for _, v := range our {
							counts[v]++
						}
						if !slices.Equal(their, our) {
							t.Errorf("%s: %s asks the %s %s by %s: %q, kube-proxy: %q", p, a.name, kind, to, network, our, their)
						}
					})
				}
			}
		}
	}
	asked.Wait()
	t.Logf("verdicts: %v", counts)
}
