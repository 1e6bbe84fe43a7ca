package apiserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/apiserver"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if dir != "" {
		if c, err := cluster(); err == nil {
			c.Close()
		}
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

var dir string // the cluster's, once it is wanted

// cluster is one for all tests, which come one after the other: starting takes longer than most of them.
var cluster = sync.OnceValues(func() (c *apiserver.Cluster, err error) {
	if dir, err = apiserver.TempDir(); err != nil {
		return nil, err
	}
	return apiserver.New(context.Background(), dir)
})

// newCluster is the cluster with no objects but its own, and both servers running.
func newCluster(t *testing.T) *apiserver.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts etcd and kube-apiserver")
	}
	kerneltest.Need(t, kerneltest.Tool("etcd"))
	start := time.Now()
	c, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 100*time.Millisecond {
		t.Logf("etcd and kube-apiserver serve after %v", took.Round(time.Millisecond))
	}
	clearObjects(t, c)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kube-apiserver's log:\n%s", tail(c.API.Log.String(), 30))
		}
	})
	return c
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// webAt is the service web with another endpoint.
func webAt(addr string) string { return strings.ReplaceAll(web, "10.2.1.10", addr) }

// web is a service with one slice.
const web = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  clusterIP: 10.96.0.20
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.2.1.10]}]
`

// What was written is there after both servers died, and history that etcd has forgotten is said to be gone.
func TestServersComeBackWithoutTheirHistory(t *testing.T) {
	c := newCluster(t)
	must(t, c.Admin.Apply(web))
	before, err := c.Admin.Find("v1", "Service", "default", "web")
	must(t, err)
	must(t, c.Admin.Apply(webAt("10.2.1.11")))

	c.API.Kill()
	if _, err := c.Admin.Get("/readyz"); err == nil {
		t.Fatal("a killed server answers")
	}
	must(t, c.Etcd.Restart())
	must(t, c.Compact())
	start := time.Now()
	must(t, c.API.Start())
	t.Logf("kube-apiserver is back after %v", time.Since(start).Round(time.Millisecond))

	after, err := c.Admin.Find("v1", "Service", "default", "web")
	must(t, err)
	if after.Metadata.UID != before.Metadata.UID {
		t.Errorf("another object: %+v, before %+v", after, before)
	}
	events, err := c.Admin.Get("/apis/discovery.k8s.io/v1/endpointslices?watch=true&timeoutSeconds=1&resourceVersion=" + before.Metadata.ResourceVersion)
	if err != nil || !strings.Contains(string(events), `"code":410`) {
		t.Errorf("a watch of old history: %s, %v; want 410", events, err)
	}
}

// A relay notes what passes, answers in the server's place, and cuts.
func TestRelaySpoilsWhatItIsAskedTo(t *testing.T) {
	c := newCluster(t)
	r, err := c.NewRelay()
	must(t, err)
	defer r.Close()
	client := apiserver.NewClient(r.URL, c.Authority.PEM, apiserver.AdminToken)
	const list = "/api/v1/services?limit=500"

	whole, err := client.Get(list)
	must(t, err)
	r.Spoil(apiserver.Fault{Times: 1, Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}})
	r.Spoil(apiserver.Fault{Times: 1, When: func(q apiserver.Request) bool { return q.Resource() == "services" }, After: 10})
	var status *apiserver.StatusError
	if _, err := client.Get(list); !errors.As(err, &status) || status.Code != http.StatusTooManyRequests {
		t.Errorf("got %v, want 429", err)
	}
	if body, err := client.Get(list); err == nil {
		t.Errorf("got all of %s, want a cut after 10 bytes", body)
	}
	if again, err := client.Get(list); err != nil || string(again) != string(whole) {
		t.Errorf("after the faults: %s, %v", again, err)
	}

	var statuses []int
	for _, q := range r.Requests() {
		statuses = append(statuses, q.Status)
		if q.Resource() != "services" || q.Watch() || q.Query.Get("limit") != "500" {
			t.Errorf("noted %+v", q)
		}
	}
	if got := fmt.Sprint(statuses); got != "[200 429 200 200]" {
		t.Errorf("answers %s", got)
	}

	go func() {
		for len(r.Requests()) < 5 {
			time.Sleep(time.Millisecond)
		}
		r.Cut()
	}()
	if _, err := client.Get("/api/v1/services?watch=true"); err == nil {
		t.Error("a watch that was cut ended well")
	}
}

// Tokens of the mint are the server's own as far as it can tell.
func TestMintedTokens(t *testing.T) {
	c := newCluster(t)
	must(t, c.Admin.Apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: minted}}"))
	o, err := c.Admin.Find("v1", "ServiceAccount", "default", "minted")
	must(t, err)
	for _, test := range []struct {
		end  time.Duration
		want int
	}{{time.Hour, http.StatusForbidden}, {-2 * apiserver.Leeway, http.StatusUnauthorized}} {
		token, err := c.Mint.Token("default", "minted", o.Metadata.UID, time.Now().Add(test.end))
		must(t, err)
		_, err = apiserver.NewClient(c.URL, c.Authority.PEM, token).Get("/api/v1/nodes")
		var status *apiserver.StatusError
		if !errors.As(err, &status) || status.Code != test.want {
			t.Errorf("a token that ends in %v: %v, want %d", test.end, err, test.want)
		}
	}
}

// What is applied is read back as written, status and all.
func TestApplyWritesSpecAndStatus(t *testing.T) {
	c := newCluster(t)
	const balanced = web + `
---
apiVersion: v1
kind: Service
metadata: {name: balanced}
spec:
  type: LoadBalancer
  ports: [{port: 80}]
status:
  loadBalancer: {ingress: [{ip: 198.51.100.80, ipMode: VIP}]}
`
	for range 2 { // the second time it is a change of nothing
		must(t, c.Admin.Apply(balanced))
	}
	body, err := c.Admin.Get("/api/v1/namespaces/default/services/balanced")
	must(t, err)
	var s struct {
		Status struct {
			LoadBalancer struct{ Ingress []struct{ IP, IPMode string } }
		}
	}
	must(t, json.Unmarshal(body, &s))
	if in := s.Status.LoadBalancer.Ingress; len(in) != 1 || in[0].IP != "198.51.100.80" {
		t.Errorf("read back %s", body)
	}
	must(t, c.Admin.Delete(balanced))
	must(t, c.Admin.Delete(balanced))
	if _, err := c.Admin.Find("v1", "Service", "default", "balanced"); err == nil {
		t.Error("still there")
	}
}
