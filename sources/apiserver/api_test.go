//go:build !noapiserver

package apiserver

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// api is an API server for lists and watches: resource versions, pages, selectors, bookmarks and a history that can be
// compacted, in JSON or protobuf as requested.
type api struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	version int
	objects map[string]map[string]object // by resource, by namespace/name
	history []event
	oldest  int           // what was before is compacted
	changed chan struct{} // closed at the next change
	// before may answer a request; it returns true if it did.
	before func(w http.ResponseWriter, r *http.Request) bool
	// asked are all requests: path, query and Accept header.
	asked []string
}

// object is an API object.
type object interface {
	runtime.Object
	metav1.Object
}

type event struct {
	version  int
	resource string
	kind     watch.EventType
	object   object
}

var groupOf = map[string]schema.GroupVersion{
	"services": corev1.SchemeGroupVersion, "nodes": corev1.SchemeGroupVersion, "endpointslices": discoveryv1.SchemeGroupVersion,
}

// newAPI starts an api. With clients, it requires a certificate signed by them.
func newAPI(t *testing.T, clients *x509.CertPool) *api {
	a := &api{t: t, version: 100, objects: map[string]map[string]object{}, changed: make(chan struct{})}
	a.Server = httptest.NewUnstartedServer(a)
	a.Server.EnableHTTP2 = true
	if clients != nil {
		a.Server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	}
	a.Server.StartTLS()
	t.Cleanup(a.Server.Close)
	return a
}

func (a *api) intercept(before func(w http.ResponseWriter, r *http.Request) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before = before
}

// put creates or updates objects, with one version each.
func (a *api) put(objects ...object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range objects {
		resource, key := resourceOf(o), o.GetNamespace()+"/"+o.GetName()
		kind := watch.Modified
		if _, there := a.objects[resource][key]; !there {
			kind = watch.Added
		}
		a.record(resource, kind, o)
		if a.objects[resource] == nil {
			a.objects[resource] = map[string]object{}
		}
		a.objects[resource][key] = o
	}
}

func (a *api) remove(o object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	resource := resourceOf(o)
	delete(a.objects[resource], o.GetNamespace()+"/"+o.GetName())
	a.record(resource, watch.Deleted, o.DeepCopyObject().(object))
}

func (a *api) record(resource string, kind watch.EventType, o object) {
	a.version++
	o.SetResourceVersion(strconv.Itoa(a.version))
	a.history = append(a.history, event{a.version, resource, kind, o})
	close(a.changed)
	a.changed = make(chan struct{})
}

// compact drops the history.
func (a *api) compact() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.history, a.oldest = nil, a.version
}

func (a *api) requests(of string) (found []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.asked {
		if strings.Contains(r, of) {
			found = append(found, r)
		}
	}
	return found
}

func resourceOf(o runtime.Object) string {
	switch o.(type) {
	case *corev1.Service:
		return "services"
	case *discoveryv1.EndpointSlice:
		return "endpointslices"
	case *corev1.Node:
		return "nodes"
	}
	panic(fmt.Sprintf("no resource of %T", o))
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, r.URL.String()+" "+r.Header.Get("Accept"))
	before := a.before
	a.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	q := r.URL.Query()
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	selected, err := selector(q.Get("labelSelector"), q.Get("fieldSelector"))
	if err != nil || groupOf[resource].Version == "" {
		a.fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "bad request")
		return
	}
	if q.Get("watch") == "true" {
		a.watch(w, r, resource, selected)
	} else {
		a.list(w, r, resource, selected)
	}
}

func selector(byLabel, byField string) (func(object) bool, error) {
	l, err := labels.Parse(byLabel)
	if err != nil {
		return nil, err
	}
	f, err := fields.ParseSelector(byField)
	return func(o object) bool {
		return l.Matches(labels.Set(o.GetLabels())) && f.Matches(fields.Set{"metadata.name": o.GetName()})
	}, err
}

func (a *api) list(w http.ResponseWriter, r *http.Request, resource string, selected func(object) bool) {
	a.mu.Lock()
	var all []object
	for _, o := range a.objects[resource] {
		if selected(o) {
			all = append(all, o)
		}
	}
	version := strconv.Itoa(a.version)
	a.mu.Unlock()
	slices.SortFunc(all, func(a, b object) int {
		return cmp.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	all = all[min(from, len(all)):]
	next := ""
	if limit > 0 && len(all) > limit {
		all, next = all[:limit], strconv.Itoa(from+limit)
	}
	var list runtime.Object
	switch resource {
	case "services":
		list = &corev1.ServiceList{}
	case "nodes":
		list = &corev1.NodeList{}
	default:
		list = &discoveryv1.EndpointSliceList{}
	}
	items := make([]runtime.Object, len(all))
	for i := range all {
		items[i] = all[i]
	}
	m, _ := meta.ListAccessor(list)
	m.SetResourceVersion(version)
	m.SetContinue(next)
	if err := meta.SetList(list, items); err != nil {
		a.t.Error(err)
	}
	s := serializerFor(r)
	w.Header().Set("Content-Type", s.MediaType)
	if err := wire().codecs.EncoderForVersion(s.Serializer, groupOf[resource]).Encode(list, w); err != nil {
		a.t.Logf("list: %v", err)
	}
}

// watch sends a bookmark, the history since a version, and new events.
func (a *api) watch(w http.ResponseWriter, r *http.Request, resource string, selected func(object) bool) {
	since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	a.mu.Lock()
	gone, version := since < a.oldest, a.version
	a.mu.Unlock()
	if gone {
		a.fail(w, http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
		return
	}
	s := serializerFor(r)
	w.Header().Set("Content-Type", s.MediaType)
	frames := s.StreamSerializer.Framer.NewFrameWriter(w)
	send := func(kind watch.EventType, o runtime.Object) {
		var object, wrapped bytes.Buffer
		if err := wire().codecs.EncoderForVersion(s.Serializer, groupOf[resource]).Encode(o, &object); err != nil {
			a.t.Error(err)
		}
		e := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object.Bytes()}}
		if err := wire().codecs.EncoderForVersion(s.StreamSerializer.Serializer, groupOf[resource]).Encode(e, &wrapped); err != nil {
			a.t.Error(err)
		}
		_, _ = frames.Write(wrapped.Bytes())
		w.(http.Flusher).Flush()
	}
	w.(http.Flusher).Flush()
	if r.URL.Query().Get("allowWatchBookmarks") == "true" && since < version && len(a.since(resource, since, selected)) == 0 {
		mark := map[string]object{"services": &corev1.Service{}, "endpointslices": &discoveryv1.EndpointSlice{}, "nodes": &corev1.Node{}}[resource]
		mark.SetResourceVersion(strconv.Itoa(version))
		send(watch.Bookmark, mark)
	}
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		for _, e := range a.since(resource, since, selected) {
			send(e.kind, e.object)
			since = e.version
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// since returns events after a version, as a watch with a selector has them: an object that no longer matches is deleted.
func (a *api) since(resource string, version int, selected func(object) bool) (events []event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.history {
		if e.resource != resource || e.version <= version {
			continue
		}
		if !selected(e.object) {
			e.kind = watch.Deleted
		}
		events = append(events, e)
	}
	return events
}

func serializerFor(r *http.Request) runtime.SerializerInfo {
	want := "application/json"
	if strings.HasPrefix(r.Header.Get("Accept"), "application/vnd.kubernetes.protobuf") {
		want = "application/vnd.kubernetes.protobuf"
	}
	info, _ := runtime.SerializerInfoForMediaType(wire().codecs.SupportedMediaTypes(), want)
	return info
}

func (a *api) fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	fail(w, code, reason, message)
}

// fail answers with a Status.
func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
}
