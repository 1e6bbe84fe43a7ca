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

// kind is one kind of object to follow: what to ask for, and what becomes of the answer.
type kind struct {
	resource  string // as in the URL and in RBAC rules
	discovery bool   // of group discovery.k8s.io, else of the core group
	labels    string // selectors: what is another's is not even sent
	fields    string

	example runtime.Object // what watch events hold
	list    func() runtime.Object
	page    func(runtime.Object) *internalversion.List // trims the objects of a list
	store   cache.ReflectorStore
}

// ours selects services and slices, as kube-proxy does: not another proxy's, and not labelled headless,
// whatever their cluster IP.
const ours = "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name"

// kinds are those to follow into a catalog; without a node's name, no Node.
func kinds(c *catalog, node string) []kind {
	all := []kind{
		{
			resource: "services", labels: ours,
			example: &corev1.Service{}, list: func() runtime.Object { return &corev1.ServiceList{} },
			page: func(o runtime.Object) *internalversion.List {
				l := o.(*corev1.ServiceList)
				return page(l.ListMeta, l.Items, service)
			},
			store: keeper[corev1.Service, manifest.Service]{service, c.putService, c.dropService, c.replaceServices},
		},
		{
			resource: "endpointslices", discovery: true, labels: ours,
			example: &discoveryv1.EndpointSlice{}, list: func() runtime.Object { return &discoveryv1.EndpointSliceList{} },
			page: func(o runtime.Object) *internalversion.List {
				l := o.(*discoveryv1.EndpointSliceList)
				return page(l.ListMeta, l.Items, slice)
			},
			store: keeper[discoveryv1.EndpointSlice, *manifest.EndpointSlice]{slice, c.putSlice, c.dropSlice, c.replaceSlices},
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
		store: keeper[corev1.Node, manifest.NodeObject]{nodeObject, c.putNode, c.dropNode, c.replaceNode},
	})
}

// keeper puts what a reflector brings into the catalog: API objects from a watch, trimmed ones from a
// list.
type keeper[API, T any] struct {
	trim      func(*API) T
	put, drop func(T)
	replace   func([]T)
}

func (k keeper[API, T]) Add(o any) error {
	object, ok := o.(*API)
	if !ok {
		return fmt.Errorf("a %T, which is not a %T", o, object)
	}
	k.put(k.trim(object))
	return nil
}

func (k keeper[API, T]) Update(o any) error { return k.Add(o) }

func (k keeper[API, T]) Delete(o any) error {
	object, ok := o.(*API)
	if !ok {
		return fmt.Errorf("a %T, which is not a %T", o, object)
	}
	k.drop(k.trim(object))
	return nil
}

func (k keeper[API, T]) Replace(objects []any, _ string) error {
	all := make([]T, 0, len(objects))
	for _, o := range objects {
		switch object := o.(type) {
		case trimmed[T]:
			all = append(all, object.object)
		case *API: // from a list that is streamed, which an environment variable of client-go asks for
			all = append(all, k.trim(object))
		default:
			return fmt.Errorf("a %T in a list, which is not a %T", o, *new(API))
		}
	}
	k.replace(all)
	return nil
}

func (k keeper[API, T]) Resync() error { return nil }

// trimmed is an object of a list, as the reflector wants one: it looks at nothing in it.
type trimmed[T any] struct{ object T }

func (trimmed[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

func (t trimmed[T]) DeepCopyObject() runtime.Object { return t }
