package traffic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// probed is a service with a health check node port and the endpoints given.
func probed(endpoints string) string {
	return `
[services.web]
type = "LoadBalancer"
clusterIP = "10.96.0.20"
loadBalancerIPs = ["198.51.100.80", "2001:db8:80::80"]
externalTrafficPolicy = "Local"
healthCheckNodePort = 32000
ports = [{ port = 80, targetPort = 7000 }]
endpoints = ` + endpoints + "\n"
}

// A load balancer's probe finds out whether this node has endpoints, and how many,
// as the table is now.
func TestHealthCheckNodePort(t *testing.T) {
	n := newNode(t, thisNode)
	other := clusterIP("other", "10.96.0.21", allV4)
	must(t, n.Serve(other))
	n.start(t, other)
	probe := n.Client.HTTP(lab.AskLimit)
	for _, c := range []struct {
		endpoints string
		local     int
	}{
		{`[{ address = "10.2.1.10", nodeName = "n1" }, { address = "10.2.3.10", nodeName = "n1" }, { address = "10.2.2.10", nodeName = "n2" }]`, 2},
		{`[{ address = "10.2.2.10", nodeName = "n2" }]`, 0},
		{`[{ address = "10.2.1.10", nodeName = "n1" }, { address = "10.2.2.10", nodeName = "n2" }]`, 1},
		{`[{ address = "10.2.1.10", nodeName = "n1", ready = false, serving = true, terminating = true }]`, 0},
	} {
		must(t, n.Serve(other+probed(c.endpoints)))
		must(t, lab.Eventually(patience, func() error { return healthIs(probe, "http://192.0.2.1:32000/healthz", c.local) }))
		for _, url := range []string{"http://192.0.2.1:32000/any/path", "http://[2001:db8::1]:32000/", "http://198.51.100.80:32000/"} {
			if err := healthIs(probe, url, c.local); err != nil {
				t.Error(err)
			}
		}
	}
	must(t, n.Serve(other))
	must(t, lab.Eventually(patience, func() error {
		if err := connect(n.Client, "192.0.2.1", 32000); !errors.Is(err, unix.ECONNREFUSED) {
			return fmt.Errorf("without the service: want refused, got %v", err)
		}
		return nil
	}))
}

// healthIs wants the answer of a service with so many local endpoints.
func healthIs(probe *http.Client, url string, local int) error {
	r, err := probe.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var body struct {
		Service             struct{ Namespace, Name string }
		LocalEndpoints      int
		ServiceProxyHealthy bool
	}
	if err := json.Unmarshal(text, &body); err != nil {
		return fmt.Errorf("%s: %w in %q", url, err, text)
	}
	code := http.StatusOK
	if local == 0 {
		code = http.StatusServiceUnavailable
	}
	weight := r.Header.Get("X-Load-Balancing-Endpoint-Weight")
	if r.StatusCode != code || weight != fmt.Sprint(local) || body.LocalEndpoints != local ||
		body.Service.Namespace != "default" || body.Service.Name != "web" || !body.ServiceProxyHealthy {
		return fmt.Errorf("%s: %s, weight %q, %s; want code %d and %d local endpoints", url, r.Status, weight, text, code, local)
	}
	return nil
}
