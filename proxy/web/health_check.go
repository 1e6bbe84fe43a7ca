package web

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// weightHeader tells a load balancer which share of the traffic this node should get. kube-proxy sends it
// since v1.28.
const weightHeader = "X-Load-Balancing-Endpoint-Weight"

// writeCheck answers any request to a health check node port: 200 if the node should get the service's
// traffic, 503 if not. Body and headers are byte for byte kube-proxy's, because some probes compare them. A
// node that is not eligible also says that.
func writeCheck(w http.ResponseWriter, c frontend.HealthCheck, healthy, eligible bool) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set(weightHeader, strconv.Itoa(c.LocalEndpoints))
	code := http.StatusServiceUnavailable
	if healthy && eligible && c.LocalEndpoints > 0 {
		code = http.StatusOK
	}
	w.WriteHeader(code)
	w.Write(checkBody(c, healthy, eligible)) // an error means that the client left
}

// checkBody is the answer in JSON, indented with tabs and without a newline at its end, as in kube-proxy.
func checkBody(c frontend.HealthCheck, healthy, eligible bool) []byte {
	type service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
	var node *bool
	if !eligible {
		node = &eligible
	}
	body, _ := json.MarshalIndent(struct {
		Service             service `json:"service"`
		LocalEndpoints      int     `json:"localEndpoints"`
		ServiceProxyHealthy bool    `json:"serviceProxyHealthy"`
		NodeEligible        *bool   `json:"nodeEligible,omitempty"`
		// strings, a number and a bool always have JSON
	}{service{c.Namespace, c.Name}, c.LocalEndpoints, healthy, node}, "", "\t")
	return body
}
