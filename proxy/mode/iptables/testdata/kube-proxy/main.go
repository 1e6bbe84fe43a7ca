// Command kube-proxy writes the rules for the objects of a file, as upstream's kube-proxy does in mode
// iptables, into the network namespace that it is started in. iptables-save and ip6tables-save in this
// folder are what the tools of these names printed after it, in a namespace that was empty:
//
//	go build -o /tmp/kube-proxy . && unshare -n sh -ec '
//		ip link set lo up
//		ip link add eth0 type dummy
//		ip link set eth0 up
//		ip addr add 192.0.2.1/24 dev eth0
//		ip addr add 2001:db8::1/64 dev eth0 nodad
//		/tmp/kube-proxy objects.yaml 10.2.0.0/16 192.0.2.1
//		/tmp/kube-proxy objects.yaml fd00:2::/32 2001:db8::1
//		iptables-save >iptables-save
//		ip6tables-save >ip6tables-save'
//
// It is a module of its own, so that nothing it needs gets into svcproxy's go.mod.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/component-helpers/node/util/sysctl"
	"k8s.io/kubernetes/pkg/proxy/iptables"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"
	utiliptables "k8s.io/kubernetes/pkg/util/iptables"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file, clusterCIDR, nodeIP string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	family, protocol := v1.IPv4Protocol, utiliptables.ProtocolIPv4
	if net.ParseIP(nodeIP).To4() == nil {
		family, protocol = v1.IPv6Protocol, utiliptables.ProtocolIPv6
	}
	p, err := iptables.NewProxier(ctx, family, utiliptables.New(protocol), sysctl.New(), time.Hour, 0, false, false, 14,
		proxyutil.NewDetectLocalByCIDR(clusterCIDR), "n1", net.ParseIP(nodeIP), nil, nil, nil, false)
	if err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := add(p, f); err != nil {
		return err
	}
	go p.SyncLoop()
	p.OnServiceSynced()
	p.OnEndpointSlicesSynced()
	time.Sleep(5 * time.Second) // it does not say when it has synced
	return nil
}

// add gives a proxier the objects of a file.
func add(p *iptables.Proxier, f io.Reader) error {
	docs := yaml.NewYAMLReader(bufio.NewReader(f))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var kind struct{ Kind string }
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			return err
		}
		switch kind.Kind {
		case "Service":
			var s v1.Service
			if err := yaml.Unmarshal(doc, &s); err != nil {
				return err
			}
			p.OnServiceAdd(&s)
		case "EndpointSlice":
			var s discovery.EndpointSlice
			if err := yaml.Unmarshal(doc, &s); err != nil {
				return err
			}
			p.OnEndpointSliceAdd(&s)
		default:
			return fmt.Errorf("kind %q", kind.Kind)
		}
	}
}
