package monitor

import (
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/metrics"
	"github.com/svcproxy/svcproxy/sources"
	source "github.com/svcproxy/svcproxy/sources/apiserver"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/testdata/apiserver"
)

const (
	scenario = "../apiserver/scenario/every-kind.txtar" // one table as objects.yaml and as services.toml
	rbac     = "../../packaging/kubernetes/rbac.yaml"
)

// written is a file of the scenario; every second time it has an endpoint in another place.
func written(t *testing.T, name string, times int) string {
	t.Helper()
	archive, err := txtar.ParseFile(scenario)
	must(t, err)
	for _, f := range archive.Files {
		if f.Name != name {
			continue
		}
		moved := strings.ReplaceAll(string(f.Data), "10.2.2.10", "10.2.4.10")
		if moved == string(f.Data) {
			t.Fatalf("%s: no endpoint to move", scenario)
		}
		return []string{string(f.Data), moved}[times%2]
	}
	t.Fatalf("%s has no %s", scenario, name)
	return ""
}

// checked is a source of one service, whose endpoint is a TLS server on loopback. It is probed five times a second.
func checked(t *testing.T) proxy.Feed {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that a probe ends
	server.StartTLS()
	t.Cleanup(server.Close)
	at := netip.MustParseAddrPort(server.Listener.Addr().String())
	check := sources.DefaultHealthCheck()
	check.Probe.Type, check.Interval = sources.CheckTLS, 200*time.Millisecond
	s := service(0, "checked", 1)
	s.HealthCheck, s.Ports[0].TargetPort = &check, at.Port()
	s.Endpoints[0].Addr, s.Endpoints[0].Ports[0].Port = at.Addr(), at.Port()
	return proxy.Feed{Name: "static", Source: config.NewStatic(tableOf(s), nil)}
}

// fromFile starts a node that follows a services.toml, and gives what writes that once more.
func fromFile(t *testing.T) (n *node, write func(times int)) {
	path := filepath.Join(t.TempDir(), "services.toml")
	write = func(times int) {
		must(t, os.WriteFile(path+".new", []byte(written(t, "services.toml", times)), 0o644))
		must(t, os.Rename(path+".new", path))
	}
	write(0)
	s, err := file.New(file.Options{Paths: []string{path}, Watch: true})
	must(t, err)
	return startFrom(t, proxy.Feed{Name: "file", Source: s}, checked(t)), write
}

// fromAPIServer starts a node that follows a real kube-apiserver, and gives what writes the objects there
// once more. Meanwhile connections break, and each time a watch is refused that is to go on.
func fromAPIServer(t *testing.T) (n *node, write func(times int)) {
	if testing.Short() {
		t.Skip("starts etcd and kube-apiserver")
	}
	kerneltest.Need(t, kerneltest.Tool("etcd"))
	dir, err := apiserver.TempDir()
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	c, err := apiserver.New(t.Context(), dir)
	must(t, err)
	t.Cleanup(c.Close)
	relay, err := c.NewRelay()
	must(t, err)
	t.Cleanup(func() { relay.Close() })

	must(t, c.Admin.Apply(written(t, "objects.yaml", 0)))
	kubeconfig := filepath.Join(dir, "kubeconfig")
	rights, err := os.ReadFile(rbac)
	must(t, err)
	token, err := c.Account(string(rights))
	must(t, err)
	must(t, apiserver.Kubeconfig{Server: relay.URL, Authority: c.Authority.PEM, Token: token}.Write(kubeconfig))
	s, err := source.New(source.Options{
		Kubeconfig: kubeconfig, ContentType: "application/vnd.kubernetes.protobuf", NodeName: "lb1",
		Log: slog.New(slog.DiscardHandler), Metrics: &requests,
	})
	must(t, err)
	// After 410 the source lists again, the only request whose time client-go measures. Do it twice, because a
	// rate needs an earlier value. 3xx comes from what is in front of an API server, if ever.
	refusals := []int{http.StatusGone, http.StatusServiceUnavailable, http.StatusNotModified, http.StatusGone}
	n = startFrom(t, proxy.Feed{Name: "apiserver", Source: s}, checked(t))
	requests.to.Store(n.metrics)
	var cut time.Time
	return n, func(times int) {
		must(t, c.Admin.Apply(written(t, "objects.yaml", times)))
		if len(refusals) > 0 && time.Since(cut) > time.Second {
			relay.Spoil(apiserver.Fault{Times: 1, Status: refusals[0], When: apiserver.Request.Watch})
			relay.Cut()
			refusals, cut = refusals[1:], time.Now()
		}
	}
}

// requests has the node at work told of the requests of client-go, which tells one for the whole process.
var requests teller

type teller struct {
	to atomic.Pointer[metrics.Metrics]
}

func (r *teller) Request(code, method, host string) {
	if m := r.to.Load(); m != nil {
		m.Request(code, method, host)
	}
}

func (r *teller) Latency(verb, host string, d time.Duration) {
	if m := r.to.Load(); m != nil {
		m.Latency(verb, host, d)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
