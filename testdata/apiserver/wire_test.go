package apiserver_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	source "github.com/svcproxy/svcproxy/sources/apiserver"
	"github.com/svcproxy/svcproxy/sources/manifest"
	"github.com/svcproxy/svcproxy/testdata/apiserver"
)

// fill makes the services f00000, f00001, ... of these numbers, and a slice for each, until the test ends.
func fill(t *testing.T, c *apiserver.Cluster, from, below int) {
	t.Helper()
	var objects []any
	for i := from; i < below; i++ {
		objects = append(objects, fillerService(i), fillerSlice(i, fillerAddr(i)))
	}
	must(t, c.Admin.Create(objects...))
	if from == 0 {
		t.Cleanup(func() { must(t, c.Empty()) })
	}
}

type object map[string]any

func fillerService(i int) object {
	return object{
		"apiVersion": "v1", "kind": "Service", "metadata": object{"name": fmt.Sprintf("f%05d", i)},
		"spec": object{"clusterIP": fmt.Sprintf("10.96.%d.%d", 16+i/250, 1+i%250), "ports": []object{{"port": 80}}},
	}
}

func fillerAddr(i int) string { return fmt.Sprintf("10.3.%d.%d", i/250, 1+i%250) }

func fillerSlice(i int, addr string) object {
	name := fmt.Sprintf("f%05d", i)
	return object{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata":  object{"name": name + "-1", "labels": object{"kubernetes.io/service-name": name}},
		"ports":     []object{{"name": "", "port": 8080}},
		"endpoints": []object{{"addresses": []string{addr}}},
	}
}

// qps and burst bound what comes to the server, as counted there.
func TestQPSAndBurst(t *testing.T) {
	c := newCluster(t)
	must(t, c.Admin.Apply(web))
	fill(t, c, 0, 1100) // two pages of each kind
	const qps, burst = 2, 2
	r := newRelay(t, c)
	f := follow(t, source.Options{Kubeconfig: kubeconfig(t, c, r.URL), ContentType: protobuf, QPS: qps, Burst: burst,
		OnNode: func(manifest.Node) {}})
	f.await(t, 0, "all services", func(e emission) bool { return e.Services.Len() == 1102 })

	requests := r.Requests()
	var came []time.Time
	for _, q := range requests {
		if !q.Watch() {
			came = append(came, q.Came)
		}
	}
	if len(came) < 2*2+1 {
		t.Errorf("%d list requests, want two pages of services and slices, and one of nodes", len(came))
	}
	// The first one may arrive late, by a pause of this process; without a limit all come within milliseconds.
	const pause = time.Second
	took := came[len(came)-1].Sub(came[0])
	if least := time.Duration(len(came)-burst)*time.Second/qps - pause; took < least {
		t.Errorf("%d requests within %v, want at least %v", len(came), took, least)
	}
	t.Logf("%d requests, %d lists in %v", len(requests), len(came), took)
}

// Protobuf is what goes over the wire, for lists and watches, or what else was asked for.
func TestContentTypes(t *testing.T) {
	for _, test := range []struct{ name, contentType, accept, want string }{
		{"protobuf", protobuf, "", protobuf},
		{"JSON", "application/json", "", "application/json"},
		{"accept", "", protobuf + ",application/json", protobuf},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			must(t, c.Admin.Apply(web))
			r := newRelay(t, c)
			f := follow(t, source.Options{Kubeconfig: kubeconfig(t, c, r.URL), ContentType: test.contentType, AcceptContentTypes: test.accept})
			f.awaitEndpoint(t, "10.2.1.10:8080")
			moveWeb(t, c, "10.2.1.11")
			f.awaitEndpoint(t, "10.2.1.11:8080")
			watches := 0
			for _, q := range r.Requests() {
				if q.Watch() {
					watches++
				}
				if q.Status != 200 || !strings.HasPrefix(q.ContentType, test.want) {
					t.Errorf("%s %s: %d, asked for %q and got %q", q.Method, q.Path, q.Status, q.Accept, q.ContentType)
				}
			}
			if watches < 2 {
				t.Errorf("%d watches", watches)
			}
		})
	}
}

// The Node object is told before the first table, and as it changes.
func TestNodeIsTold(t *testing.T) {
	c := newCluster(t)
	const node = `
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/zone: a}}
spec: {podCIDR: 10.2.1.0/24, podCIDRs: [10.2.1.0/24, "fd00:2:1::/64"]}
status: {addresses: [{type: InternalIP, address: 192.0.2.1}, {type: Hostname, address: n1}]}
`
	must(t, c.Admin.Apply(node+"---\n{apiVersion: v1, kind: Node, metadata: {name: n2}}"))
	told := make(chan manifest.Node, 100)
	f := follow(t, source.Options{Kubeconfig: kubeconfig(t, c, c.URL), ContentType: protobuf, OnNode: func(n manifest.Node) { told <- n }})
	f.await(t, 0, "a first table", func(e emission) bool { return e.err == nil })
	select {
	case n := <-told:
		if got := fmt.Sprintf("%s %s %v %v %t", n.Name, n.Zone, n.Addresses, n.PodCIDRs, n.Eligible()); got != "n1 a [192.0.2.1] [10.2.1.0/24 fd00:2:1::/64] true" {
			t.Errorf("told %s", got)
		}
	default:
		t.Fatal("a table before the node")
	}

	await := func(what string, want func(manifest.Node) bool) {
		t.Helper()
		for limit := time.After(patience); ; {
			select {
			case n := <-told:
				if want(n) {
					return
				}
			case <-limit:
				t.Fatalf("%s: not within %v", what, patience)
			}
		}
	}
	must(t, c.Admin.Apply(strings.Replace(node, "spec: {", "spec: {taints: [{key: ToBeDeletedByClusterAutoscaler, effect: NoSchedule}], ", 1)))
	await("the autoscaler's taint", func(n manifest.Node) bool { return !n.Eligible() })
	must(t, c.Admin.Apply(node))
	await("no taint", manifest.Node.Eligible)
	must(t, c.Admin.Delete(node))
	await("a deleted node", func(n manifest.Node) bool { return !n.Eligible() })
}
