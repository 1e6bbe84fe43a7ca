package lab

import (
	"fmt"
	"net/http"
	"os"
)

// objectsPort is where ServeObjects listens.
const objectsPort = 6443

// ServeObjects starts an API server on the host whose objects never change: it
// lists Services and EndpointSlices, given as JSON objects with commas between
// them, and keeps watches open without an event. The file kubeconfig leads to it.
// For kube-proxy there is a Node, which is the host.
func (h *Host) ServeObjects(kubeconfig, services, slices string) (*http.Server, error) {
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u"}],
		"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:%d"}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`, objectsPort)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		return nil, err
	}
	l, err := h.Listen(objectsPort)
	if err != nil {
		return nil, err
	}
	const list = `{"kind": %q, "apiVersion": %q, "metadata": {"resourceVersion": "1"}, "items": [%s]}`
	node := fmt.Sprintf(`{"kind": "Node", "apiVersion": "v1", "metadata": {"name": %q, "resourceVersion": "1"}, "status": {"addresses": [
		{"type": "InternalIP", "address": %q}, {"type": "InternalIP", "address": %q}]}}`, h.Name, h.V4, h.V6)
	server := &http.Server{Handler: objects{
		"/api/v1/nodes":                            fmt.Sprintf(list, "NodeList", "v1", node),
		"/api/v1/nodes/" + h.Name:                  node,
		"/apis/networking.k8s.io/v1/servicecidrs":  fmt.Sprintf(list, "ServiceCIDRList", "networking.k8s.io/v1", ""),
		"/api/v1/services":                         fmt.Sprintf(list, "ServiceList", "v1", services),
		"/apis/discovery.k8s.io/v1/endpointslices": fmt.Sprintf(list, "EndpointSliceList", "discovery.k8s.io/v1", slices),
	}}
	go server.Serve(l)
	return server, nil
}

// objects has the list of each path.
type objects map[string]string

func (o objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch list, known := o[r.URL.Path]; {
	case r.URL.Query().Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case known:
		fmt.Fprint(w, list)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	}
}
