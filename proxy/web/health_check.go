package web

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// HealthCheck is what one health check node port answers. Its fields are those of frontend.HealthCheck.
type HealthCheck struct {
	Namespace, Name string // of the service
	Port            uint16 // TCP, on all addresses of the node
	LocalEndpoints  int    // ready, on this node
}

func (c HealthCheck) fullName() string { return c.Namespace + "/" + c.Name }

// weightHeader tells a load balancer which share of the traffic this node should get. kube-proxy sends it
// since v1.28.
const weightHeader = "X-Load-Balancing-Endpoint-Weight"

// write answers any request: 200 if the node should get the service's traffic, 503 if not. Body and headers
// are byte for byte kube-proxy's, because some probes compare them.
func (c HealthCheck) write(w http.ResponseWriter, healthy bool) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set(weightHeader, strconv.Itoa(c.LocalEndpoints))
	code := http.StatusServiceUnavailable
	if healthy && c.LocalEndpoints > 0 {
		code = http.StatusOK
	}
	w.WriteHeader(code)
	w.Write(c.body(healthy)) // an error means that the client left
}

// body is the answer in JSON, indented with tabs and without a newline at its end, as in kube-proxy.
func (c HealthCheck) body(healthy bool) []byte {
	type service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
	body, _ := json.MarshalIndent(struct {
		Service             service `json:"service"`
		LocalEndpoints      int     `json:"localEndpoints"`
		ServiceProxyHealthy bool    `json:"serviceProxyHealthy"`
	}{service{c.Namespace, c.Name}, c.LocalEndpoints, healthy}, "", "\t") // strings, a number and a bool always have JSON
	return body
}
