package apiserver_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	source "github.com/svcproxy/svcproxy/sources/apiserver"
	"github.com/svcproxy/svcproxy/testdata/apiserver"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// outage is how long servers are away: SVCPROXY_API_OUTAGE=2m for as long as it takes to replace one.
func outage(t *testing.T) time.Duration {
	t.Helper()
	v := os.Getenv("SVCPROXY_API_OUTAGE")
	if v == "" {
		return 10 * time.Second
	}
	d, err := time.ParseDuration(v)
	must(t, err)
	return d
}

// A server that is away for a while, and comes back without its history, was never missed by a service.
func TestKilledServerComesBackWithoutItsHistory(t *testing.T) {
	c := newCluster(t)
	must(t, c.Admin.Apply(web))
	f := follow(t, source.Options{Kubeconfig: kubeconfig(t, c, c.URL), ContentType: protobuf})
	f.awaitEndpoint(t, "10.2.1.10:8080")

	mark := f.mark()
	c.API.Kill()
	defer start(t, c)
	f.awaitReason(t, mark, `connection refused`)
	time.Sleep(outage(t))
	must(t, c.Compact())
	must(t, c.API.Start())
	moveWeb(t, c, "10.2.1.11")
	f.awaitEndpoint(t, "10.2.1.11:8080")
	f.awaitRecovery(t, mark)
	f.wantNothingLost(t)
}

// A source is cut off and misses changes that etcd then compacts. Its next watch is answered 410, so
// it must list again.
func TestCompactedHistoryIsListedAnew(t *testing.T) {
	c, r, f := followWeb(t)
	mark := f.mark()
	r.Spoil(apiserver.Fault{Status: http.StatusServiceUnavailable})
	r.Cut()
	f.awaitReason(t, mark, `.`)
	moveWeb(t, c, "10.2.1.11")
	c.API.Kill()
	defer start(t, c)
	must(t, c.Compact())
	must(t, c.API.Start())
	before := len(r.Requests())
	r.Heal()
	f.awaitEndpoint(t, "10.2.1.11:8080")
	f.awaitRecovery(t, mark)
	f.wantNothingLost(t)
	listed := func(q apiserver.Request) bool {
		return !q.Watch() && q.Resource() == "endpointslices" && q.Status == http.StatusOK
	}
	if !slices.ContainsFunc(r.Requests()[before:], listed) {
		t.Error("the slices were not listed anew: was the history there?")
	}
}

// Without etcd the API server lives on, and answers what it has in memory or errors.
func TestRestartedEtcd(t *testing.T) {
	c, r, f := followWeb(t)
	c.Etcd.Kill()
	defer start(t, c)
	r.Cut()
	time.Sleep(outage(t) / 2)
	must(t, c.Etcd.Start())
	must(t, lab.Eventually(patience, func() error { _, err := c.Admin.Get("/readyz"); return err }))
	moveWeb(t, c, "10.2.1.11")
	f.awaitEndpoint(t, "10.2.1.11:8080")
	f.wantNothingLost(t)
}

// start leaves the servers running for the next test.
func start(t *testing.T, c *apiserver.Cluster) {
	t.Helper()
	for _, p := range []*apiserver.Process{c.Etcd, c.API} {
		if !p.Running() {
			must(t, p.Start())
		}
	}
}

// A connection that is cut while a watch is silent is opened again, without any change being missed.
func TestWatchThatIsCut(t *testing.T) {
	c, r, f := followWeb(t)
	r.Cut()
	moveWeb(t, c, "10.2.1.11")
	f.awaitEndpoint(t, "10.2.1.11:8080")

	// In the middle of an event, as often as it takes to call it a habit.
	r.Spoil(apiserver.Fault{Times: 3, When: apiserver.Request.Watch, After: 20})
	r.Cut()
	moveWeb(t, c, "10.2.1.12")
	f.awaitEndpoint(t, "10.2.1.12:8080")
	f.wantNothingLost(t)
}

// A list that is cut is not taken for a short one.
func TestListThatIsCut(t *testing.T) {
	c := newCluster(t)
	must(t, c.Admin.Apply(web))
	fill(t, c, 0, 1100)
	r := newRelay(t, c)
	lists := func(q apiserver.Request) bool { return !q.Watch() && q.Resource() == "services" }
	rest := func(q apiserver.Request) bool { return lists(q) && q.Query.Get("continue") != "" }
	r.Spoil(apiserver.Fault{Times: 1, When: lists, After: 2000})
	r.Spoil(apiserver.Fault{Times: 1, When: rest, After: 2000}) // the second page
	f := follow(t, source.Options{Kubeconfig: kubeconfig(t, c, r.URL), ContentType: protobuf, QPS: -1})
	f.awaitEndpoint(t, "10.2.1.10:8080")

	all, _ := f.since(0)
	for _, e := range all {
		if n := e.Services.Len(); !e.none() && n != 1102 {
			t.Errorf("a table of %d services, want 1100, web and kubernetes", n)
		}
	}
	pages := 0
	for _, q := range r.Requests() {
		if rest(q) {
			pages++
		}
	}
	if pages < 2 {
		t.Errorf("%d requests for a second page, want one that was cut and one that was not: are large lists not paged?", pages)
	}
}

// After an answer of an overloaded or starting server the source waits before it asks again, at least
// for the time that the answer names.
func TestServerThatRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		fault  apiserver.Fault
		reason string
		apart  time.Duration // at least, the requests of a kind
	}{
		{"429", apiserver.Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}}, `429|(?i)too many requests`, time.Second},
		{"503", apiserver.Fault{Status: http.StatusServiceUnavailable}, `503|(?i)unavailable|unable to handle`, time.Second / 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, r, f := followWeb(t)
			mark := f.mark()
			before := len(r.Requests())
			r.Spoil(test.fault)
			r.Cut()
			f.awaitReason(t, mark, test.reason)
			moveWeb(t, c, "10.2.1.11")
			wantApart(t, r, before, test.apart)
			r.Heal()
			f.awaitEndpoint(t, "10.2.1.11:8080")
			f.awaitRecovery(t, mark)
			f.wantNothingLost(t)
		})
	}
}

// wantApart waits for three refusals of each kind, and wants time between them.
func wantApart(t *testing.T, r *apiserver.Relay, before int, apart time.Duration) {
	t.Helper()
	refused := func(resource string) (came []time.Time) {
		for _, q := range r.Requests()[before:] {
			if q.Resource() == resource && q.Status >= 400 {
				came = append(came, q.Came)
			}
		}
		return came
	}
	for _, resource := range []string{"services", "endpointslices"} {
		var came []time.Time
		must(t, lab.Eventually(patience, func() error {
			if came = refused(resource); len(came) < 3 {
				return fmt.Errorf("%s: refused %d times", resource, len(came))
			}
			return nil
		}))
		for i := range came[1:] {
			if gap := came[i+1].Sub(came[i]); gap < apart {
				t.Errorf("%s: refused, and asked again after %v, want at least %v", resource, gap, apart)
			}
		}
	}
}
