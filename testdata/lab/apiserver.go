package lab

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
)

// objectsPort is where ServeObjects listens.
const objectsPort = 6443

// Objects is an API server that lists Services and EndpointSlices, and a Node, which is the host. Its watches have no
// events; a change ends them, so that clients list again.
type Objects struct {
	*http.Server
	mu      sync.Mutex
	lists   map[string]list // by path
	version int
	changed chan struct{} // closed at the next change
}

// list is one kind's objects.
type list struct{ kind, group, items string }

const servicesPath = "/api/v1/services"

// ServeObjects starts an API server on the host with objects, given as JSON objects with commas between them. The file
// kubeconfig leads to it.
func (h *Host) ServeObjects(kubeconfig, services, slices string) (*Objects, error) {
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u"}],
		"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:%d"}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`, objectsPort)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		return nil, err
	}
	l, err := h.Listen(objectsPort)
	if err != nil {
		return nil, err
	}
	node := fmt.Sprintf(`{"kind": "Node", "apiVersion": "v1", "metadata": {"name": %q, "resourceVersion": "1"}, "status": {"addresses": [
		{"type": "InternalIP", "address": %q}, {"type": "InternalIP", "address": %q}]}}`, h.Name, h.V4, h.V6)
	o := &Objects{version: 1, changed: make(chan struct{}), lists: map[string]list{
		"/api/v1/nodes":                            {"NodeList", "v1", node},
		"/api/v1/nodes/" + h.Name:                  {items: node},
		"/apis/networking.k8s.io/v1/servicecidrs":  {"ServiceCIDRList", "networking.k8s.io/v1", ""},
		servicesPath:                               {"ServiceList", "v1", services},
		"/apis/discovery.k8s.io/v1/endpointslices": {"EndpointSliceList", "discovery.k8s.io/v1", slices},
	}}
	o.Server = &http.Server{Handler: o}
	go o.Serve(l)
	return o, nil
}

// SetServices replaces all Services.
func (o *Objects) SetServices(services string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lists[servicesPath]
	l.items = services
	o.lists[servicesPath] = l
	o.version++
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *Objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	l, known := o.lists[r.URL.Path]
	version, changed := strconv.Itoa(o.version), o.changed
	o.mu.Unlock()
	q := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case q.Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		http.NewResponseController(w).Flush()
		if seen := q.Get("resourceVersion"); seen == version {
			select {
			case <-r.Context().Done():
				return
			case <-changed:
			}
		}
		fmt.Fprint(w, `{"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}}`)
	case !known:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	case l.kind == "":
		fmt.Fprint(w, l.items)
	default:
		items, err := selected(l.items, q.Get("labelSelector"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, `{"kind": %q, "apiVersion": %q, "metadata": {"resourceVersion": %q}, "items": [%s]}`, l.kind, l.group, version, items)
	}
}

// selected are the objects that a selector of labels matches.
func selected(items, selector string) (string, error) {
	want, err := labels.Parse(selector)
	if err != nil {
		return "", err
	}
	var all []json.RawMessage
	if err := json.Unmarshal([]byte("["+items+"]"), &all); err != nil {
		return "", err
	}
	var matching []string
	for _, raw := range all {
		var object struct {
			Metadata struct{ Labels map[string]string }
		}
		if err := json.Unmarshal(raw, &object); err != nil {
			return "", err
		}
		if want.Matches(labels.Set(object.Metadata.Labels)) {
			matching = append(matching, string(raw))
		}
	}
	return strings.Join(matching, ", "), nil
}
