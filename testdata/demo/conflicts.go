package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// link is the node's towards the client.
const link = "uplink"

// onLink has the VIP come to a link and leave it, as where keepalived becomes
// master and backup on the same node.
func (d *demo) onLink() (string, error) {
	vip := webVIP.Addr().String()
	traffic := d.browse(webVIP)
	err := inOrder(
		func() error { return d.Node.IP("addr add " + vip + "/32 dev " + link) },
		func() error { return d.bound(vip, false) },
		func() error { d.say("%s is on %s now, and not on kube-ipvs0", vip, link); return traffic.more(20) },
		d.proxy.Stop,
		func() error { return d.proxy.Start() },
		func() error { return d.proxyServes("web", "on "+link) },
		func() error { d.say("svcproxy was started again with it"); return traffic.more(20) },
	)
	count, failed := traffic.stop()
	if err := errors.Join(err, failed); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d requests, 0 failed; bound again after", count), inOrder(
		func() error { return d.Node.IP("addr del " + vip + "/32 dev " + link) },
		func() error { return d.bound(vip, true) },
		func() error { d.say("%s has left %s and is on kube-ipvs0 again", vip, link); return nil },
	)
}

const apiService = `{"metadata": {"namespace": "default", "name": "api"}, "spec": {"type": "LoadBalancer",
  "clusterIP": "10.96.0.40", "clusterIPs": ["10.96.0.40"], "loadBalancerSourceRanges": ["192.0.2.0/24"],
  "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30040}]}, "status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.40"}]}}}`

const apiSlice = `{"metadata": {"namespace": "default", "name": "api-1", "labels": {"kubernetes.io/service-name": "api"}},
  "addressType": "IPv4", "ports": [{"port": 8080, "protocol": "TCP", "name": ""}], "endpoints": [{"addresses": ["10.2.1.10"]}]}`

// apiVIPs are the service's cluster IP, load balancer IP and node port.
var apiVIPs = []netip.AddrPort{
	netip.MustParseAddrPort("10.96.0.40:80"),
	netip.MustParseAddrPort("198.51.100.40:80"),
	netip.MustParseAddrPort("192.0.2.1:30040"),
}

// onLinkOfAPI starts svcproxy with an API server beside the file. The load balancer
// IP of the API server's service comes to a link and leaves it, as with kube-vip.
func (d *demo) onLinkOfAPI() (string, error) {
	kubeconfig := filepath.Join(d.proxy.Dir, "kubeconfig")
	server, err := d.Node.ServeObjects(kubeconfig, apiService, apiSlice)
	if err != nil {
		return "", err
	}
	defer server.Close()
	d.say("an API server has this Service, and an EndpointSlice for it:")
	d.show(strings.Split(apiService, "\n")...)
	withAPI := fmt.Sprintf("%s\nsources.apiserver.enabled = true\nclientConnection.kubeconfig = %q", configuration, kubeconfig)
	count, err := d.apiComesAndGoes(withAPI)
	d.say("svcproxy is started again without the API server")
	return fmt.Sprintf("cluster IP, load balancer IP and node port: %d requests, 0 failed", count), errors.Join(err, inOrder(
		func() error { return d.restart(configuration) },
		func() error { return d.gone(apiVIPs[0]) },
	))
}

// apiComesAndGoes has the load balancer IP come to the link and leave it while
// clients use all three addresses. It returns how many requests were answered.
//
// Between its leaving and svcproxy's binding it, nobody has the load balancer IP,
// and the node answers "host unreachable". So its own client pauses there.
func (d *demo) apiComesAndGoes(withAPI string) (int64, error) {
	err := d.restart(withAPI)
	for _, vip := range apiVIPs {
		if err == nil {
			_, err = d.answered(vip)
		}
	}
	if err != nil {
		return 0, err
	}
	vip := apiVIPs[1].Addr().String()
	others, its := d.browse(apiVIPs[0], apiVIPs[2]), d.browse(apiVIPs[1])
	err = inOrder(
		func() error { return its.more(20) },
		func() error { return d.Node.IP("addr add " + vip + "/32 dev " + link) },
		func() error { return d.bound(vip, false) },
		func() error { d.say("%s is on %s now, and not on kube-ipvs0", vip, link); return its.more(20) },
		func() error { return d.restart(withAPI) },
		func() error { return d.proxyServes("api", "on "+link) },
		func() error { d.say("svcproxy was started again with it"); return its.more(20) },
	)
	count, failed := its.stop()
	err = errors.Join(err, failed)
	if err == nil {
		err = inOrder(
			func() error { return d.Node.IP("addr del " + vip + "/32 dev " + link) },
			func() error { return d.bound(vip, true) },
			func() error { _, err := d.answered(apiVIPs[1]); return err },
			func() error { d.say("%s has left %s and is on kube-ipvs0 again", vip, link); return others.more(20) },
		)
	}
	more, failed := others.stop()
	return count + more, errors.Join(err, failed)
}

// restart stops svcproxy and starts it with another configuration.
func (d *demo) restart(main string) error {
	return inOrder(d.proxy.Stop, func() error { return d.proxy.Configure(main) }, func() error { return d.proxy.Start() })
}

// bound waits until kube-ipvs0 has an address, or has it no more.
func (d *demo) bound(addr string, want bool) error {
	return lab.Eventually(patience, func() error {
		lines, err := d.Node.Addrs()
		if err == nil && slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "kube-ipvs0 "+addr+"/") }) != want {
			err = fmt.Errorf("%s on kube-ipvs0: %t, want %t", addr, !want, want)
		}
		return err
	})
}

// proxyServes waits until `svcproxy status SERVICE` says something.
func (d *demo) proxyServes(service, what string) error {
	return lab.Eventually(patience, func() error {
		out, _, err := d.proxy.Command("status", service)
		if err == nil && !strings.Contains(out, what) {
			err = fmt.Errorf("status does not say %q: %s", what, out)
		}
		return err
	})
}

const newcomer = `[services.newcomer]
externalIPs = ["198.51.100.80", "198.51.100.90"]
ports = [{ port = 80, targetPort = 8080 }]
endpoints = ["10.2.1.10"]
`

// newcomer has a file that sorts first want the VIP of a service that is served.
func (d *demo) newcomer() (string, error) {
	path := filepath.Join(d.proxy.Dir, "services.d", "0-newcomer.toml")
	d.say("services.d/0-newcomer.toml:")
	d.show(strings.Split(strings.TrimSpace(newcomer), "\n")...)
	traffic := d.browse(webVIP)
	err := inOrder(
		func() error { return os.WriteFile(path, []byte(newcomer), 0o644) },
		func() error { _, err := d.answered(netip.MustParseAddrPort("198.51.100.90:80")); return err },
		func() error { return traffic.more(20) },
	)
	count, failed := traffic.stop()
	if err := errors.Join(err, failed); err != nil {
		return "", err
	}
	who := map[string]bool{}
	client := d.Client.HTTP(lab.AskLimit)
	for range 30 {
		a, err := lab.Get(client, webVIP)
		if err != nil {
			return "", err
		}
		who[a.Backend] = true
	}
	out, code, err := d.proxy.Command("status", "newcomer")
	if err != nil {
		return "", err
	}
	d.show(strings.Split(strings.TrimSpace(out), "\n")...)
	if code != 7 || len(who) != len(d.Backends) || !strings.Contains(out, "is taken by web (") {
		return "", fmt.Errorf("exit code %d; %s is answered by %v", code, webVIP, who)
	}
	if err := os.Remove(path); err != nil {
		return "", err
	}
	return fmt.Sprintf("web keeps %s, the newcomer has %s; %d requests, 0 failed", webVIP.Addr(), "198.51.100.90", count), d.gone(netip.MustParseAddrPort("198.51.100.90:80"))
}
