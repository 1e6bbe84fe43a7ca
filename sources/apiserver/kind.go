//go:build !noapiserver

package apiserver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/svcproxy/svcproxy/sources/manifest"
)

// kind is a kind of object to follow: what to request, and where to put the answer.
type kind struct {
	resource  string // as in the URL and in RBAC rules
	discovery bool   // of group discovery.k8s.io, else of the core group
	labels    string // selectors, so that the API server sends only what is used
	fields    string

	example runtime.Object // of the objects in watch events
	list    func() runtime.Object
	page    func(runtime.Object) *internalversion.List // trims the objects of a list
	store   cache.ReflectorStore
}

// Objects labelled headless are not asked for, whatever their cluster IP. Services of other proxies are: status
// counts them, and a list of them alone is not the list of an empty cluster. Their slices are not needed. A slice
// that somebody made by hand for a Service with a proxy's name may lack that label.
const (
	notHeadless  = "!service.kubernetes.io/headless"
	notOfAnother = notHeadless + ",!" + manifest.ProxyNameLabel
)

// kinds are the kinds to follow into a catalog. Without a node's name the Node is not among them.
func kinds(c *catalog, node string) []kind {
	ofSlices := notOfAnother
	if c.proxy != "" {
		ofSlices = notHeadless
	}
	all := []kind{
		{
			resource: "services", labels: notHeadless,
			example: &corev1.Service{}, list: func() runtime.Object { return &corev1.ServiceList{} },
			page: func(o runtime.Object) *internalversion.List {
				l := o.(*corev1.ServiceList)
				return page(l.ListMeta, l.Items, c.service)
			},
			store: sink[corev1.Service, manifest.Service]{c.service, c.putService, c.dropService, c.replaceServices},
		},
		{
			resource: "endpointslices", discovery: true, labels: ofSlices,
			example: &discoveryv1.EndpointSlice{}, list: func() runtime.Object { return &discoveryv1.EndpointSliceList{} },
			page: func(o runtime.Object) *internalversion.List {
				l := o.(*discoveryv1.EndpointSliceList)
				return page(l.ListMeta, l.Items, slice)
			},
			store: sink[discoveryv1.EndpointSlice, *manifest.EndpointSlice]{slice, c.putSlice, c.dropSlice, c.replaceSlices},
		},
	}
	if node == "" {
		return all
	}
	return append(all, kind{
		resource: "nodes", fields: fields.OneTermEqualSelector("metadata.name", node).String(),
		example: &corev1.Node{}, list: func() runtime.Object { return &corev1.NodeList{} },
		page: func(o runtime.Object) *internalversion.List {
			l := o.(*corev1.NodeList)
			return page(l.ListMeta, l.Items, nodeObject)
		},
		store: sink[corev1.Node, manifest.NodeObject]{nodeObject, c.putNode, c.dropNode, c.replaceNode},
	})
}

// sink puts the objects of a reflector into the catalog. They are API objects from a watch, and trimmed objects from
// a list.
type sink[API, T any] struct {
	trim      func(*API) T
	put, drop func(T)
	replace   func([]T)
}

func (k sink[API, T]) Add(o any) error {
	object, ok := o.(*API)
	if !ok {
		return fmt.Errorf("a %T, which is not a %T", o, object)
	}
	k.put(k.trim(object))
	return nil
}

func (k sink[API, T]) Update(o any) error { return k.Add(o) }

func (k sink[API, T]) Delete(o any) error {
	object, ok := o.(*API)
	if !ok {
		return fmt.Errorf("a %T, which is not a %T", o, object)
	}
	k.drop(k.trim(object))
	return nil
}

func (k sink[API, T]) Replace(objects []any, _ string) error {
	all := make([]T, 0, len(objects))
	for _, o := range objects {
		switch object := o.(type) {
		case trimmed[T]:
			all = append(all, object.object)
		case *API: // from a streamed list, which an environment variable of client-go enables
			all = append(all, k.trim(object))
		default:
			return fmt.Errorf("a %T in a list, which is not a %T", o, *new(API))
		}
	}
	k.replace(all)
	return nil
}

func (k sink[API, T]) Resync() error { return nil }

// trimmed wraps an object of a list for the reflector, which does not look into it.
type trimmed[T any] struct{ object T }

func (trimmed[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

func (t trimmed[T]) DeepCopyObject() runtime.Object { return t }
