//go:build !noapiserver

package apiserver

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/svcproxy/svcproxy/sources"
)

// patience bounds every wait. A test that passes never waits that long.
const patience = time.Minute

func TestMain(m *testing.M) {
	firstPause, longPause, sorePause, steady = 20*time.Millisecond, 200*time.Millisecond, 400*time.Millisecond, time.Second
	mostPages, pageLimit, listLimit, eventLimit = 20, 4<<20, 10<<20, 2<<20
	os.Exit(m.Run())
}

// emission is a table, as text "web 10.2.0.1 10.2.0.2, ...", and its error.
type emission struct {
	table sources.Table
	err   error
}

func (e emission) String() string {
	var all []string
	for _, s := range e.table.Services.All() {
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
	dir    string
	emits  chan emission
	source *Source
}

// start runs a Source, after prepare has filled the API server. It makes the kubeconfig of o.
func start(t *testing.T, o Options, prepare func(r *rig)) *rig {
	return startAt(t, newAPI(t, nil), o, prepare)
}

func startAt(t *testing.T, a *api, o Options, prepare func(r *rig)) *rig {
	r := &rig{T: t, api: a, dir: t.TempDir(), emits: make(chan emission, 1000)}
	r.kubeconfig(r.ca(), "first")
	o.Kubeconfig = r.path("kubeconfig")
	if o.ContentType == "" {
		o.ContentType = "application/vnd.kubernetes.protobuf"
	}
	if o.QPS == 0 {
		o.QPS = -1
	}
	if prepare != nil {
		prepare(r)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.source = s
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

// write replaces a file as a whole.
func (r *rig) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(r.path(name+".new"), []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
	if err := os.Rename(r.path(name+".new"), r.path(name)); err != nil {
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
	r.user("tokenFile: token")
}

// user writes a kubeconfig with this user in it.
func (r *rig) user(fields string) {
	r.Helper()
	r.write("kubeconfig", r.config(fields))
}

func (r *rig) config(user string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters:
- {name: c, cluster: {server: %q, certificate-authority: ca.crt}}
users:
- {name: u, user: {%s}}
contexts:
- {name: x, context: {cluster: c, user: u}}
current-context: x
`, r.URL, user)
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

// TestSelectors: the API server does not send objects of another proxy, nor those labelled headless, even if they have a
// cluster IP, as in kube-proxy.
func TestSelectors(t *testing.T) {
	r := start(t, Options{}, func(r *rig) {
		other, headless := svc("other", "10.96.0.3"), eps("web-2", "web", "10.2.0.2")
		other.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": ""}
		headless.Labels["service.kubernetes.io/headless"] = ""
		labelled := svc("labelled", "10.96.0.4")
		labelled.Labels = map[string]string{"service.kubernetes.io/headless": ""}
		r.put(svc("web", "10.96.0.1"), other, headless, labelled, eps("web-1", "web", "10.2.0.1"))
	})
	r.want("web 10.2.0.1")
	gone := svc("web", "10.96.0.1")
	gone.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "another"}
	r.put(gone)
	r.want("")
	r.put(svc("web", "10.96.0.1"))
	r.want("web 10.2.0.1")
}

// TestProxyName: with a name, Services with that name are served and no others, whatever their slices are labelled. One
// moves from proxy to proxy with its label. A list of others alone is not that of an empty cluster.
func TestProxyName(t *testing.T) {
	named := func(name, addr, proxy string) *corev1.Service {
		s := svc(name, addr)
		s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": proxy}
		return s
	}
	r := start(t, Options{ProxyName: "svcproxy", EmptyGrace: time.Hour}, func(r *rig) {
		r.put(named("ours", "10.96.0.1", "svcproxy"), svc("plain", "10.96.0.2"), named("other", "10.96.0.3", "cilium"))
		r.put(eps("ours-1", "ours", "10.2.0.1"), eps("plain-1", "plain", "10.2.0.2"), eps("other-1", "other", "10.2.0.3"))
	})
	r.want("ours 10.2.0.1")
	if o := r.source.Others(); o.Count != 2 || !slices.Equal(o.First, []string{"default/other", "default/plain"}) ||
		o.Why != `their label service.kubernetes.io/service-proxy-name is not "svcproxy" (sources.apiserver.proxyName)` {
		t.Errorf("others: %v", o)
	}
	r.put(named("plain", "10.96.0.2", "svcproxy"))
	r.want("ours 10.2.0.1, plain 10.2.0.2")
	r.put(svc("ours", "10.96.0.1"), svc("plain", "10.96.0.2"))
	r.want("")
	if o := r.source.Others(); o.Count != 3 {
		t.Errorf("others: %v", o)
	}
}

// TestMisspeltProxyName: a list in which no Service has the name is not believed for the grace: what the kernel has stays.
func TestMisspeltProxyName(t *testing.T) {
	r := start(t, Options{ProxyName: "svcporxy", EmptyGrace: time.Hour}, func(r *rig) {
		s := svc("ours", "10.96.0.1")
		s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "svcproxy"}
		r.put(s, eps("ours-1", "ours", "10.2.0.1"))
	})
	e := r.wait("a table", func(emission) bool { return true })
	if rejected, ok := errors.AsType[*sources.RejectedError](e.err); !ok || !rejected.Incomplete {
		t.Errorf("believed: %v", e.err)
	}
}

// TestPages: a large list comes in pages. If its continue token expires, it comes whole.
func TestPages(t *testing.T) {
	const n = 2*pageSize + 10
	for _, expired := range []bool{false, true} {
		t.Run(fmt.Sprint(expired), func(t *testing.T) {
			r := start(t, Options{}, func(r *rig) {
				for i := range n {
					r.put(svc(fmt.Sprintf("s%05d", i), fmt.Sprintf("10.96.%d.%d", i/200, i%200+1)))
				}
				r.intercept(func(w http.ResponseWriter, q *http.Request) bool {
					if !expired || q.URL.Query().Get("continue") == "" {
						return false
					}
					fail(w, http.StatusGone, metav1.StatusReasonExpired, "the continue token is too old")
					return true
				})
			})
			e := r.wait("all", func(e emission) bool { return e.table.Services.Len() > 0 })
			if e.table.Services.Len() != n || e.err != nil {
				t.Errorf("%d services, want %d; %v", e.table.Services.Len(), n, e.err)
			}
			pages := len(r.requests("services?labelSelector=%21service.kubernetes.io%2Fheadless&limit="))
			continued := len(r.requests("/services?continue="))
			if !expired && (pages != 1 || continued != 2) {
				t.Errorf("%d requests without and %d with a continue token, want 1 and 2", pages, continued)
			}
		})
	}
}

// TestRefused: a service that cannot be served is left out and reported. The others are served.
func TestRefused(t *testing.T) {
	r := start(t, Options{}, func(r *rig) {
		r.put(svc("bad", "127.0.0.1"), svc("web", "10.96.0.1"), eps("bad-1", "bad", "10.2.0.9"), eps("web-1", "web", "10.2.0.1"))
	})
	r.want("web 10.2.0.1 ! apiserver: default/bad: VIP 127.0.0.1 is a loopback address: it is left out, as no client could reach it (and 1 more)")
	r.put(svc("bad", "10.96.0.2"))
	r.want("bad 10.2.0.9, web 10.2.0.1")
	r.put(eps("web-1", "web", "300.2.0.1", "10.2.0.2"))
	r.want(`bad 10.2.0.9, web 10.2.0.2 ! apiserver: default/web: endpoint "300.2.0.1" of EndpointSlice web-1 left out: not an address of type IPv4`)
}

// TestLate: nothing is emitted until services and endpoints are both listed. Otherwise services would lose their endpoints
// at each start.
func TestLate(t *testing.T) {
	slow := make(chan struct{})
	r := start(t, Options{}, func(r *rig) {
		r.put(svc("web", "10.96.0.1"), eps("web-1", "web", "10.2.0.1"))
		r.intercept(func(w http.ResponseWriter, q *http.Request) bool {
			if strings.Contains(q.URL.Path, "endpointslices") {
				<-slow
			}
			return false
		})
	})
	deadline := time.Now().Add(patience)
	for len(r.requests("services?")) < 2 && time.Now().Before(deadline) { // listed, and watched
		time.Sleep(time.Millisecond)
	}
	r.put(svc("db", "10.96.0.2"))
	if len(r.emits) > 0 {
		t.Errorf("emitted %s", <-r.emits)
	}
	close(slow)
	if e := <-r.emits; e.String() != "db, web 10.2.0.1" && e.String() != "web 10.2.0.1" {
		t.Errorf("first %s", e)
	}
}

// TestQPS: all kinds together stay below the limit, counted at the API server.
func TestQPS(t *testing.T) {
	const n, qps, burst = 5 * pageSize, 20, 2
	began := time.Now()
	r := start(t, Options{QPS: qps, Burst: burst}, func(r *rig) {
		for i := range n {
			r.put(svc(fmt.Sprintf("s%05d", i), fmt.Sprintf("10.96.%d.%d", i/200, i%200+1)))
		}
		began = time.Now()
	})
	r.wait("all", func(e emission) bool { return e.table.Services.Len() == n })
	took, lists := time.Since(began), len(r.requests("limit="))
	if least := time.Duration(lists-burst) * time.Second / qps; lists < 6 || took < least {
		t.Errorf("%d lists in %s, want at least %s", lists, took, least)
	}
}
