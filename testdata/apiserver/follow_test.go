package apiserver_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	source "github.com/svcproxy/svcproxy/sources/apiserver"
	"github.com/svcproxy/svcproxy/testdata/apiserver"
)

// patience is how long anything may take that a test waits for: client-go waits for up to 30 s, with
// jitter, between attempts.
const patience = 90 * time.Second

// rbac is what is shipped, so that the source never has more rights here than there.
const rbac = "../../packaging/kubernetes/rbac.yaml"

// A follower is a running Source and all that it has emitted.
type follower struct {
	mu    sync.Mutex
	all   []emission
	extra chan struct{} // closed by the next emission
}

// An emission is a table, or the reason why there is none, or both.
type emission struct {
	sources.Table
	err error
	at  time.Time
}

// none: nothing could be read, and the last table stays.
func (e emission) none() bool { return e.err != nil && e.Services.Len() == 0 }

// has reports whether the table has an endpoint, "10.2.1.10:8080", of default/web.
func (e emission) has(endpoint string) bool {
	s, _ := e.Lookup("default", "web")
	want := netip.MustParseAddrPort(endpoint)
	return slices.ContainsFunc(s.Endpoints, func(e sources.Endpoint) bool {
		return e.Addr == want.Addr() && slices.ContainsFunc(e.Ports, func(p sources.EndpointPort) bool { return p.Port == want.Port() })
	})
}

// follow runs a Source until the test ends; it must end well then.
func follow(t *testing.T, o source.Options) *follower {
	t.Helper()
	o.NodeName = "n1"
	s, err := source.New(o)
	must(t, err)
	f := &follower{extra: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Watch(ctx, f.emit) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch ended: %v", err)
		}
		if t.Failed() {
			t.Logf("emitted:\n%s", f.text())
		}
	})
	return f
}

func (f *follower) emit(table sources.Table, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, emission{table, err, time.Now()})
	close(f.extra)
	f.extra = make(chan struct{})
}

func (f *follower) text() (text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.all {
		text += fmt.Sprintf("%s %d services, error: %v\n", e.at.Format("15:04:05.000"), e.Services.Len(), e.err)
	}
	return text
}

// mark is where emissions go on.
func (f *follower) mark() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all)
}

// since are the emissions after a mark, and what tells of the next.
func (f *follower) since(mark int) ([]emission, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all[mark:]), f.extra
}

// await waits for an emission after the mark that is what is wanted.
func (f *follower) await(t *testing.T, mark int, what string, want func(emission) bool) emission {
	t.Helper()
	limit := time.After(patience)
	for {
		list, extra := f.since(mark)
		if i := slices.IndexFunc(list, want); i >= 0 {
			return list[i]
		}
		select {
		case <-extra:
		case <-limit:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// awaitEndpoint waits for a table in which default/web has the endpoint.
func (f *follower) awaitEndpoint(t *testing.T, endpoint string) {
	t.Helper()
	f.await(t, 0, "endpoint "+endpoint, func(e emission) bool { return e.has(endpoint) })
}

// awaitReason waits for an emission whose error matches, with a table or without.
func (f *follower) awaitReason(t *testing.T, mark int, expression string) {
	t.Helper()
	match := regexp.MustCompile(expression)
	e := f.await(t, mark, "reason like "+expression, func(e emission) bool { return e.err != nil && match.MatchString(e.err.Error()) })
	t.Logf("the reason given: %v", e.err)
}

// awaitRecovery waits for a table without an error.
func (f *follower) awaitRecovery(t *testing.T, mark int) {
	t.Helper()
	f.await(t, mark, "recovery", func(e emission) bool { return e.err == nil })
}

// wantNothingLost wants default/web, with an endpoint, in every table since the first that had it.
func (f *follower) wantNothingLost(t *testing.T) {
	t.Helper()
	list, _ := f.since(0)
	serves := func(e emission) bool {
		s, ok := e.Lookup("default", "web")
		return ok && len(s.Endpoints) > 0
	}
	first := slices.IndexFunc(list, serves)
	if first < 0 {
		t.Error("no table with the service")
		return
	}
	for i, e := range list[first:] {
		if !e.none() && !serves(e) {
			t.Errorf("emission %d lost the service: %d services, error: %v", first+i, e.Services.Len(), e.err)
		}
	}
}

// kubeconfig writes one for svcproxy's account and returns its name.
func kubeconfig(t *testing.T, c *apiserver.Cluster, server string) string {
	t.Helper()
	manifest, err := os.ReadFile(rbac)
	must(t, err)
	token, err := c.Account(string(manifest))
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, apiserver.Kubeconfig{Server: server, Authority: c.Authority.PEM, Token: token}.Write(path))
	return path
}

// protobuf is what svcproxy asks for unless told otherwise.
const protobuf = "application/vnd.kubernetes.protobuf"

// followWeb serves default/web with 10.2.1.10, followed through a relay.
func followWeb(t *testing.T) (*apiserver.Cluster, *apiserver.Relay, *follower) {
	t.Helper()
	c := newCluster(t)
	must(t, c.Admin.Apply(web))
	r := newRelay(t, c)
	f := follow(t, source.Options{Kubeconfig: kubeconfig(t, c, r.URL), ContentType: protobuf})
	f.awaitEndpoint(t, "10.2.1.10:8080")
	return c, r, f
}

func newRelay(t *testing.T, c *apiserver.Cluster) *apiserver.Relay {
	t.Helper()
	r, err := c.NewRelay()
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// moveWeb gives default/web another endpoint.
func moveWeb(t *testing.T, c *apiserver.Cluster, addr string) {
	t.Helper()
	must(t, c.Admin.Apply(webAt(addr)))
}
