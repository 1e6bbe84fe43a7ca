//go:build !noapiserver

package apiserver

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/svcproxy/svcproxy/sources/manifest"
)

// TestNode: OnNode is called before the first table, and then at each change.
func TestNode(t *testing.T) {
	nodes := make(chan manifest.Node, 100)
	is := func(zone string, taints ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
		n.Spec.PodCIDRs = []string{"10.2.1.0/24", "fd00:2:1::/64"}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.1.1"}, {Type: corev1.NodeHostName, Address: "n1"}}
		for _, key := range taints {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key})
		}
		return n
	}
	r := start(t, Options{NodeName: "n1", OnNode: func(n manifest.Node) { nodes <- n }}, func(r *rig) {
		whole(r)
		r.put(is("a"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})
	})
	want := func(zone, leaving string) {
		t.Helper()
		select {
		case n := <-nodes:
			if n.Name != "n1" || n.Zone != zone || n.Leaving != leaving || n.Eligible() != (leaving == "") {
				t.Errorf("node %+v, want zone %q and leaving %q", n, zone, leaving)
			}
			if len(n.PodCIDRs) != 2 || len(n.Addresses) != 1 {
				t.Errorf("node %+v, want its two CIDRs and one address", n)
			}
		case <-time.After(patience):
			t.Fatal("no word of the node")
		}
	}
	r.want(wholeTable)
	if len(nodes) != 1 {
		t.Fatalf("%d words of the node before the first table, want 1", len(nodes))
	}
	want("a", "")
	r.put(is("b"))
	want("b", "")
	r.put(is("b", "other", "ToBeDeletedByClusterAutoscaler"))
	want("b", "its Node object has the taint ToBeDeletedByClusterAutoscaler")
	r.put(is("b"))
	want("b", "")
	going := is("b")
	going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	r.put(going)
	want("b", "its Node object is being deleted")
	r.remove(is("b"))
	want("b", "its Node object was deleted")
	r.put(is("c"))
	want("c", "")
	for _, request := range r.requests("/nodes") {
		if len(r.requests("fieldSelector=metadata.name%3Dn1")) == 0 {
			t.Errorf("asked for all nodes: %s", request)
		}
	}
}

// TestNoNode: NoNode is called once, before the first table, and a Node that appears later counts.
func TestNoNode(t *testing.T) {
	nodes, without := make(chan manifest.Node, 100), make(chan bool, 100)
	r := start(t, Options{NodeName: "n1", OnNode: func(n manifest.Node) { nodes <- n }, NoNode: func() { without <- true }}, func(r *rig) {
		whole(r)
		r.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})
	})
	r.want(wholeTable)
	if len(nodes) != 0 || len(without) != 1 {
		t.Fatalf("%d words of a node and %d of none before the first table, want 0 and 1", len(nodes), len(without))
	}
	r.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	select {
	case n := <-nodes:
		if n.Name != "n1" || len(without) != 1 {
			t.Errorf("node %+v, and %d words of none", n, len(without))
		}
	case <-time.After(patience):
		t.Fatal("no word of the node")
	}
}

// TestNodeDeletedUnseen: the Node is deleted while there is no watch.
func TestNodeDeletedUnseen(t *testing.T) {
	nodes := make(chan manifest.Node, 100)
	r := start(t, Options{NodeName: "n1", OnNode: func(n manifest.Node) { nodes <- n }}, func(r *rig) {
		whole(r)
		r.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	})
	r.want(wholeTable)
	<-nodes
	r.answer(503, metav1.StatusReasonServiceUnavailable, "watch=true")
	r.cutWatches()
	r.complains("503")
	r.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	r.compact()
	r.answer(0, "")
	select {
	case n := <-nodes:
		if n.Eligible() {
			t.Errorf("node %+v, want it gone", n)
		}
	case <-time.After(patience):
		t.Fatal("no word of the node")
	}
}
