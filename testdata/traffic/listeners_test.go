package traffic

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

const listeners = "healthzBindAddress = \"0.0.0.0:10256\"\nmetricsBindAddress = \"127.0.0.1:10249\"\n"

// get gives an answer's code and body.
func get(c *http.Client, url string) (int, string, error) {
	resp, err := c.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// answers wants a code and a text in the body, in the end.
func answers(t *testing.T, c *http.Client, url string, code int, text string) {
	t.Helper()
	err := lab.Eventually(patience, func() error {
		got, body, err := get(c, url)
		if err != nil || got != code || !strings.Contains(body, text) {
			return fmt.Errorf("%s: %d, %v, want %d with %q in\n%.2000s", url, got, err, code, text, body)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func refuses(t *testing.T, c *http.Client, url string) {
	t.Helper()
	err := lab.Eventually(patience, func() error {
		if code, _, err := get(c, url); err == nil {
			return fmt.Errorf("%s: %d, want no answer", url, code)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The listeners are where the configuration says, and go where it says next.
func TestListenersAnswerAndMove(t *testing.T) {
	n := newNode(t, listeners+"enableProfiling = true\n")
	n.start(t, web)
	client, here := n.Client.HTTP(lab.AskLimit), n.Lab.Node.HTTP(lab.AskLimit)
	answers(t, client, "http://192.0.2.1:10256/healthz", 200, `"nodeEligible":true`)
	answers(t, client, "http://192.0.2.1:10256/livez", 200, `"healthy":true`)
	answers(t, here, "http://127.0.0.1:10249/healthz", 200, "ok")
	answers(t, here, "http://127.0.0.1:10249/proxyMode", 200, modeOf(t))
	answers(t, here, "http://127.0.0.1:10249/configz", 200, `{"kubeproxy.config.k8s.io":{`)
	answers(t, here, "http://127.0.0.1:10249/metrics", 200, `svcproxy_services{state="serving"} 1`)
	answers(t, here, "http://127.0.0.1:10249/", 200, "<title>svcproxy</title>")
	answers(t, here, "http://127.0.0.1:10249/status.json", 200, `"name":"web"`)
	answers(t, here, "http://127.0.0.1:10249/debug/pprof/", 200, "goroutine")
	refuses(t, client, "http://192.0.2.1:10249/metrics")
	for _, path := range []string{"/", "/metrics", "/status.json", "/configz", "/debug/pprof/"} {
		if code := as(t, here, "http://127.0.0.1:10249"+path, "node1.example.com"); code != http.StatusMisdirectedRequest {
			t.Errorf("%s under another name: %d", path, code)
		}
	}
	must(t, n.Configure(listeners+"metricsAllowedHosts = [\".example.com\"]\n"))
	err := lab.Eventually(patience, func() error {
		if code := as(t, here, "http://127.0.0.1:10249/metrics", "node1.example.com"); code != http.StatusOK {
			return fmt.Errorf("/metrics under a name that is allowed: %d", code)
		}
		return nil
	})
	must(t, err)

	must(t, n.Configure("healthzBindAddress = \"192.0.2.1:10256\"\nmetricsBindAddress = \"0.0.0.0:10249\"\n"))
	answers(t, client, "http://192.0.2.1:10249/metrics", 200, "svcproxy_build_info")
	answers(t, here, "http://127.0.0.1:10249/debug/pprof/", 404, "not found")
	answers(t, client, "http://192.0.2.1:10256/healthz", 200, "")
	refuses(t, here, "http://127.0.0.1:10256/healthz")

	must(t, n.Configure(""))
	refuses(t, client, "http://192.0.2.1:10249/metrics")
	refuses(t, client, "http://192.0.2.1:10256/healthz")
}

// as asks under a name and gives the code.
func as(t *testing.T, c *http.Client, url, host string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	must(t, err)
	req.Host = host
	resp, err := c.Do(req)
	must(t, err)
	resp.Body.Close()
	return resp.StatusCode
}

// If another program has the address, svcproxy tries again, or ends with bindAddressHardFail.
func TestListenerWhoseAddressIsTaken(t *testing.T) {
	n := newNode(t, listeners)
	taken, err := n.Lab.Node.Listen(10256)
	must(t, err)
	n.start(t, web)
	mark := 0
	if _, err := n.Wait(mark, `not listening.*healthz.*address already in use`); err != nil {
		t.Error(err)
	}
	here := n.Lab.Node.HTTP(lab.AskLimit)
	answers(t, here, "http://127.0.0.1:10249/metrics", 200, "svcproxy_build_info")
	must(t, taken.Close())
	answers(t, here, "http://127.0.0.1:10256/healthz", 200, `"healthy":true`)

	must(t, n.Stop())
	taken, err = n.Lab.Node.Listen(10256)
	must(t, err)
	defer taken.Close()
	must(t, n.Configure(listeners+"bindAddressHardFail = true\n"))
	must(t, n.Start())
	select {
	case <-n.Ended():
	case <-time.After(time.Minute):
		t.Fatal("runs on although it cannot listen")
	}
	if n.ExitCode() != 1 {
		t.Errorf("exit code %d, want 1", n.ExitCode())
	}
}

// What is scraped is what ipvsadm says: connections, packets and bytes.
func TestMetricsTellWhatTheKernelCounts(t *testing.T) {
	n := newNode(t, listeners)
	n.start(t, web)
	vip := netip.MustParseAddrPort("10.96.0.20:80")
	for range 7 {
		_, err := n.Client.Ask("tcp", vip)
		must(t, err)
	}
	here := n.Lab.Node.HTTP(lab.AskLimit)
	row := regexp.MustCompile(`(?m)^TCP +10\.96\.0\.20:80 +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)`)
	must(t, lab.Eventually(patience, func() error { // the kernel adds up every two seconds
		out, err := n.Lab.Node.Run("ipvsadm", "-Ln", "--stats", "--exact")
		if err != nil {
			return err
		}
		said := row.FindStringSubmatch(out)
		if said == nil || said[1] != "7" {
			return fmt.Errorf("ipvsadm says\n%s", out)
		}
		_, body, err := get(here, "http://127.0.0.1:10249/metrics")
		if err != nil {
			return err
		}
		for i, series := range []string{
			`svcproxy_service_connections_total{name="web",service="web"}`,
			`svcproxy_service_packets_total{direction="in",name="web",service="web"}`, `svcproxy_service_packets_total{direction="out",name="web",service="web"}`,
			`svcproxy_service_bytes_total{direction="in",name="web",service="web"}`, `svcproxy_service_bytes_total{direction="out",name="web",service="web"}`,
		} {
			if !strings.Contains(body, "\n"+series+" "+said[i+1]+"\n") {
				return fmt.Errorf("%s is not %s as ipvsadm says", series, said[i+1])
			}
		}
		return nil
	}))
}

// A scrape costs the same kernel queries with a small and a large table: one
// reading of the counters, nothing per service, and no program is run. Virtual
// servers of other namespaces leave gaps in the kernel's text, at most one
// each, and each gap is asked for.
func TestScrapeAsksTheSameAtAnySize(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("strace"))
	for _, c := range []struct{ size, others int }{{10, 0}, {1000, 0}, {1000, 100}} {
		t.Run(fmt.Sprintf("%d services beside %d", c.size, c.others), func(t *testing.T) {
			n := newLonelyNode(t, listeners+"ipvs.syncPeriod = \"1h\"\n")
			stranger, err := lab.NewNamespace("stranger")
			must(t, err)
			defer stranger.Close()
			var rules strings.Builder
			for i := range c.others {
				fmt.Fprintf(&rules, "-A -t 10.200.0.%d:80 -s rr\n", i+1)
			}
			_, err = stranger.Feed(rules.String(), "ipvsadm", "-R")
			must(t, err)

			n.start(t, services(c.size, `["10.5.0.9"]`))
			here := n.Lab.Node.HTTP(time.Minute)
			others := max(c.others, virtualServers(t)-c.size) // with those of namespaces that the kernel has yet to clear away
			began := time.Now()
			trace, err := n.TraceDuring(func() error {
				code, body, err := get(here, "http://127.0.0.1:10249/metrics?endpoints=*")
				if listed := strings.Count(body, "\nsvcproxy_endpoint_weight{"); err == nil && (code != 200 || listed != c.size) {
					err = fmt.Errorf("code %d, %d real servers", code, listed)
				}
				return err
			})
			must(t, err)
			calls := withoutQuickChecks(trace.Netlink())
			whole := without(calls, "IP_VS_SO_GET_DESTS", others)
			t.Logf("%d calls, %d of them for gaps that %d virtual servers of other namespaces left", len(calls), len(calls)-len(whole), others)
			// Counters are read again if they are older than half a second, which a slow machine needs for a scrape. A
			// reading has three dumps: of IPVS, and of the rules of limits for each family.
			dumps := len(whole.Dumps())
			most := 3 * (1 + int(time.Since(began)/(500*time.Millisecond)))
			if dumps == 0 || dumps > most || len(whole) > 25*dumps || len(trace.Writes()) > 0 || len(trace.Execs()) > 0 {
				t.Errorf("%d calls, %d dumps, %d writes, executed %q; want 25 a dump, at most %d, none, none\n%s",
					len(whole), dumps, len(trace.Writes()), trace.Execs(), most, whole)
			}
		})
	}
}

// virtualServers counts those of all network namespaces: each holds its scheduler's
// module, if that is one.
func virtualServers(t *testing.T) int {
	t.Helper()
	modules, err := filepath.Glob("/sys/module/ip_vs_*/refcnt")
	must(t, err)
	sum := 0
	for _, m := range modules {
		text, err := os.ReadFile(m)
		must(t, err)
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		must(t, err)
		sum += n
	}
	return sum
}
