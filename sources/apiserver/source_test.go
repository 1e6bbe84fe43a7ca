//go:build !noapiserver

package apiserver

import (
	"context"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

// patience bounds every wait; a test that passes never waits it out.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	firstPause, longPause = 20*time.Millisecond, 200*time.Millisecond
	os.Exit(m.Run())
}

// emission is a table as text, "web 10.2.0.1 10.2.0.2, ...", and what was wrong.
type emission struct {
	table sources.Table
	err   error
}

func (e emission) String() string {
	var all []string
	for _, s := range e.table.Services {
		text := s.Name
		for _, end := range s.Endpoints {
			text += " " + end.Addr.String()
		}
		all = append(all, text)
	}
	text := strings.Join(all, ", ")
	if e.err != nil {
		text += " ! " + e.err.Error()
	}
	return text
}

// rig is a Source at work against an api.
type rig struct {
	*testing.T
	*api
	dir   string
	emits chan emission
	nodes chan manifest.Node
}

// start runs a Source, after prepare has filled the API server; o's kubeconfig is made.
func start(t *testing.T, o Options, prepare func(r *rig)) *rig {
	r := &rig{T: t, api: newAPI(t), dir: t.TempDir(), emits: make(chan emission, 1000), nodes: make(chan manifest.Node, 100)}
	r.kubeconfig(r.ca(), "first")
	o.Kubeconfig = r.path("kubeconfig")
	if o.ContentType == "" {
		o.ContentType = "application/vnd.kubernetes.protobuf"
	}
	o.QPS = -1
	if prepare != nil {
		prepare(r)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Watch(ctx, func(table sources.Table, err error) { r.emits <- emission{table, err} })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error("Watch:", err)
		}
	})
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

// ca is the server's certificate, which it signed itself.
func (r *rig) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Server.Certificate().Raw}))
}

func (r *rig) kubeconfig(ca, token string) {
	r.Helper()
	r.write("ca.crt", ca)
	r.write("token", token)
	r.write("kubeconfig", fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters:
- {name: c, cluster: {server: %q, certificate-authority: ca.crt}}
users:
- {name: u, user: {tokenFile: token}}
contexts:
- {name: x, context: {cluster: c, user: u}}
current-context: x
`, r.URL))
}

// want waits for an emission of this text.
func (r *rig) want(text string) emission {
	r.Helper()
	return r.wait(text, func(e emission) bool { return e.String() == text })
}

// complains waits for an emission whose error has all of these words.
func (r *rig) complains(words ...string) emission {
	r.Helper()
	return r.wait(fmt.Sprint(words), func(e emission) bool {
		for _, w := range words {
			if e.err == nil || !strings.Contains(e.err.Error(), w) {
				return false
			}
		}
		return true
	})
}

func (r *rig) wait(what string, is func(emission) bool) emission {
	r.Helper()
	var seen []string
	timeout := time.After(patience)
	for {
		select {
		case e := <-r.emits:
			if is(e) {
				return e
			}
			seen = append(seen, e.String())
		case <-timeout:
			r.Fatalf("want %s, seen:\n%s", what, strings.Join(seen, "\n"))
		}
	}
}

func svc(name, ip string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
}

func eps(name, service string, addrs ...string) *discoveryv1.EndpointSlice {
	port, portName, protocol := int32(8080), "http", corev1.ProtocolTCP
	e := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port, Protocol: &protocol}},
	}
	for _, a := range addrs {
		e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return e
}

func TestFollow(t *testing.T) {
	for _, content := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(content, func(t *testing.T) {
			r := start(t, Options{ContentType: content}, func(r *rig) {
				r.put(svc("web", "10.96.0.1"), eps("web-1", "web", "10.2.0.1"))
			})
			first := r.want("web 10.2.0.1")
			if !first.table.Seen.IsZero() {
				t.Error("the first table was noticed by an event")
			}
			before := time.Now()
			r.put(eps("web-2", "web", "10.2.0.2"), svc("db", "10.96.0.2"))
			if e := r.want("db, web 10.2.0.1 10.2.0.2"); e.table.Seen.Before(before) || e.table.Seen.After(time.Now()) {
				t.Errorf("seen at %s", e.table.Seen)
			}
			r.remove(eps("web-1", "web"))
			r.want("db, web 10.2.0.2")
			r.put(eps("web-2", "db", "10.2.0.2")) // the slice goes to another service
			r.want("db 10.2.0.2, web")
			r.remove(svc("web", ""))
			r.want("db 10.2.0.2")
			for _, request := range r.requests("") {
				if !strings.Contains(request, " "+content) {
					t.Errorf("asked %s, want it to accept %s", request, content)
				}
			}
		})
	}
}
