package web

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/proxy/frontend"
)

func check(namespace, name string, port uint16, endpoints int) frontend.HealthCheck {
	return frontend.HealthCheck{Namespace: namespace, Name: name, Port: port, LocalEndpoints: endpoints}
}

// opened returns health check node ports whose log fails the test. They are closed at its end.
func opened(t *testing.T, checks ...frontend.HealthCheck) *HealthPorts {
	t.Helper()
	p := &HealthPorts{Healthy: func() bool { return true }, Log: slog.New(slog.NewTextHandler(failing{t}, nil))}
	t.Cleanup(p.Close)
	p.Set(checks)
	return p
}

type failing struct{ t *testing.T }

func (f failing) Write(line []byte) (int, error) {
	f.t.Errorf("logged: %s", line)
	return len(line), nil
}

// free returns ports that no process listens at, below the range that the kernel gives to clients. A probe
// could use a port of that range as its source just when the test opens it.
func free(t *testing.T, n int) []uint16 {
	t.Helper()
	var ports []uint16
	for tries := 0; len(ports) < n; tries++ {
		port := uint16(20000 + rand.IntN(10000))
		l, err := listenTCP(port)
		if err == nil {
			defer l.Close() // after the last is found, so that all differ
			ports = append(ports, port)
		} else if tries == 100 {
			t.Fatal(err)
		}
	}
	return ports
}

func at(port uint16) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// probe asks on a new connection, as most load balancers do.
func probe(method, addr, path string) (code int, body string, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	req, err := http.NewRequest(method, "http://"+addr+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func wantProbe(t *testing.T, addr string, code int, body string) {
	t.Helper()
	gotCode, got, err := probe("GET", addr, "/")
	if err != nil || gotCode != code || !strings.Contains(got, body) {
		t.Errorf("%s: %d, %v, %s; want %d with %s", addr, gotCode, err, got, code, body)
	}
}

func wantRefused(t *testing.T, port uint16) {
	t.Helper()
	if c, err := net.Dial("tcp", at(port)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("port %d: %v, want it refused", port, err)
		if err == nil {
			c.Close()
		}
	}
}

func TestHealthPortsFollowTheChecks(t *testing.T) {
	ports := free(t, 3)
	web, dns := check("default", "web", ports[0], 2), check("kube-system", "dns", ports[1], 0)
	p := opened(t, web, dns)
	wantProbe(t, at(web.Port), 200, `"web"`)
	wantProbe(t, at(dns.Port), 503, `"kube-system"`)

	dns.LocalEndpoints = 1
	web.Port = ports[2]
	p.Set([]frontend.HealthCheck{web, dns})
	wantRefused(t, ports[0])
	wantProbe(t, at(web.Port), 200, `"web"`)
	wantProbe(t, at(dns.Port), 200, `"localEndpoints": 1`)

	p.Set(nil)
	wantRefused(t, web.Port)
	wantRefused(t, dns.Port)

	p.Set([]frontend.HealthCheck{web})
	wantProbe(t, at(web.Port), 200, `"web"`)
	p.Close()
	wantRefused(t, web.Port)
	p.Set([]frontend.HealthCheck{web})
	wantRefused(t, web.Port)
}

// A port can be set, removed and set again at once.
func TestHealthPortsComeBackAtOnce(t *testing.T) {
	web := check("default", "web", free(t, 1)[0], 1)
	p := opened(t)
	for range 200 {
		p.Set([]frontend.HealthCheck{web})
		p.Set(nil)
	}
	wantRefused(t, web.Port)
}

func TestHealthPortsServeBothFamilies(t *testing.T) {
	if l, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skipf("no IPv6 here: %v", err)
	} else {
		l.Close()
	}
	web := check("default", "web", free(t, 1)[0], 1)
	opened(t, web)
	wantProbe(t, at(web.Port), 200, `"web"`)
	wantProbe(t, fmt.Sprintf("[::1]:%d", web.Port), 200, `"web"`)
}

// Probes may use any path and any method.
func TestHealthPortsAnswerAnything(t *testing.T) {
	web := check("default", "web", free(t, 1)[0], 0)
	opened(t, web)
	for _, ask := range []string{"GET /healthz", "POST /a//../b?c", "DELETE /", "BREW /pot", "CONNECT x:1", "OPTIONS *"} {
		method, target, _ := strings.Cut(ask, " ")
		c, err := net.Dial("tcp", at(web.Port))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "%s %s HTTP/1.0\r\n\r\n", method, target)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%s: %v", ask, err)
		} else if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 503 || !bytes.Contains(body, []byte(`"web"`)) {
			t.Errorf("%s: %s\n%s", ask, resp.Status, body)
		}
		c.Close()
	}
	if code, body, err := probe("HEAD", at(web.Port), "/"); code != 503 || body != "" || err != nil {
		t.Errorf("HEAD: %d %q %v", code, body, err)
	}
}

// A header without an end is refused and not stored.
func TestHealthPortsLimitTheHeader(t *testing.T) {
	web := check("default", "web", free(t, 1)[0], 1)
	opened(t, web)
	c, err := net.Dial("tcp", at(web.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a\r\nX: %s", strings.Repeat("x", 2*maxHeader))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%v %v", resp, err)
	}
}

func TestHealthPortsHeedTheProxy(t *testing.T) {
	web := check("default", "web", free(t, 1)[0], 1)
	var healthy atomic.Bool
	p := opened(t)
	p.Healthy = healthy.Load
	p.Set([]frontend.HealthCheck{web})
	wantProbe(t, at(web.Port), 503, `"serviceProxyHealthy": false`)
	healthy.Store(true)
	wantProbe(t, at(web.Port), 200, `"serviceProxyHealthy": true`)
}

// While checks are added, changed and removed, a port that stays answers every request with its service's
// name and the code for its count. So does a port that another service takes over.
func TestUnchangedHealthPortsLoseNoRequest(t *testing.T) {
	ports := free(t, 3)
	stays := check("default", "stays", ports[0], 1)
	moves := check("default", "moves-a", ports[1], 1)
	p := opened(t, stays, moves)

	done := make(chan struct{})
	var asking sync.WaitGroup
	var answers atomic.Int64
	for i := range 4 {
		port := ports[i%2]
		want := []string{`"stays"`, `"moves-`}[i%2]
		asking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				code, body, err := probe("GET", at(port), "/")
				if err != nil || !strings.Contains(body, want) || (code == 200) == strings.Contains(body, `"localEndpoints": 0`) {
					t.Errorf("port %d: %d, %v, %s", port, code, err, body)
					return
				}
				answers.Add(1)
			}
		})
	}
	for i := 0; i < 200 || answers.Load() < 200 && !t.Failed(); i++ {
		stays.LocalEndpoints = i % 3
		moves.Name = "moves-" + string('a'+rune(i%2))
		checks := []frontend.HealthCheck{stays, moves}
		if i%2 == 0 {
			checks = append(checks, check("default", "comes-and-goes", ports[2], 1))
		}
		p.Set(checks)
	}
	close(done)
	asking.Wait()
}

// If two services have one port, the first gets it.
func TestFirstHealthCheckHasThePort(t *testing.T) {
	port := free(t, 1)[0]
	opened(t, check("default", "a", port, 1), check("default", "b", port, 1))
	wantProbe(t, at(port), 200, `"a"`)
}

// ending is a listener without clients. A test makes it fail.
type ending struct{ end chan error }

func (e ending) Accept() (net.Conn, error) { return nil, <-e.end }
func (e ending) Addr() net.Addr            { return &net.TCPAddr{} }
func (e ending) Close() error {
	select {
	case e.end <- net.ErrClosed:
	default:
	}
	return nil
}

// A host that can refuse to open a port. It counts all tries.
type host struct {
	port     uint16
	refuse   error // under HealthPorts.mu, as the rest
	tries    int
	listener ending // at port
}

func (h *host) listen(port uint16) (net.Listener, error) {
	h.tries++
	l := ending{make(chan error, 1)}
	if port != h.port {
		return l, nil
	}
	h.listener = l
	return l, h.refuse
}

func TestHealthPortInUseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := &host{port: 32000, refuse: syscall.EADDRINUSE}
		p := &HealthPorts{Healthy: func() bool { return true }, Log: slog.New(slog.NewTextHandler(&log, nil)), listen: h.listen}
		defer p.Close()
		wantTries := func(n int, lines ...string) {
			t.Helper()
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			if h.tries != n {
				t.Errorf("%d tries, want %d", h.tries, n)
			}
			logged := strings.Split(strings.TrimSpace(log.String()), "\n")
			for i := range max(len(logged), len(lines)) {
				if i >= len(logged) || i >= len(lines) || !strings.Contains(logged[i], lines[i]) {
					t.Fatalf("logged:\n%s\nwant: %q", log.String(), lines)
				}
			}
		}
		refuse := func(err error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			h.refuse = err
		}
		checks := []frontend.HealthCheck{check("default", "web", 32000, 1), check("default", "dns", 32001, 1)}
		p.Set(checks)
		wantTries(2, "address already in use")
		time.Sleep(3 * time.Second)
		p.Set(checks)
		wantTries(2, "address already in use")
		time.Sleep(13 * time.Second)
		wantTries(5, "address already in use")
		refuse(nil)
		time.Sleep(5 * time.Second)
		wantTries(6, "in use", "opened")
		time.Sleep(time.Minute)
		wantTries(6, "in use", "opened")

		// A listener that fails is treated the same.
		refuse(syscall.EADDRINUSE)
		h.listener.end <- syscall.EINVAL
		time.Sleep(6 * time.Second)
		wantTries(7, "in use", "opened", "invalid argument")

		// A port that is no longer wanted is not tried again.
		p.Set(nil)
		time.Sleep(time.Minute)
		wantTries(7, "in use", "opened", "invalid argument")
	})
}
