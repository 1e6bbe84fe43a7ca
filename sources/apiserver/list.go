//go:build !noapiserver

package apiserver

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	pageSize    = 1000        // objects of a list in one answer: about 2 MB of services
	pageTimeout = time.Minute // for one of them; a watch ends by the API server's own
)

// What a list and its parts may be at most. Kubernetes is tested to 150,000 pods and 10,000 services: their
// slices are a list of 100 MB in JSON, and a page of it 45 MB.
// Variables for the tests, which have no memory.
var (
	mostPages        = 500
	pageLimit  int64 = 64 << 20  // bytes of one answer, which is in memory as a whole
	listLimit  int64 = 512 << 20 // of all of a list's
	eventLimit int64 = 32 << 20  // of one watch event: client-go takes 16 MB where it counts
)

// list gives a whole list: the reflector's own paging would go on for as long as there is another page. It
// always asks for what is now: a list of what a cache may still have could take the node back in time, and
// would be sent whole.
func (f *follower) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	at := f.at.current()
	o.ResourceVersion, o.ResourceVersionMatch = "", ""
	list, err := f.pages(ctx, at, o)
	if err != nil {
		f.failed(ctx, at, err)
		return nil, err
	}
	return list, nil
}

// pages asks for one page after the other. Where the place of the next one is too old, what there is by
// then is asked for at once.
func (f *follower) pages(ctx context.Context, at *access, o metav1.ListOptions) (*internalversion.List, error) {
	whole := &internalversion.List{}
	left := listLimit
	for n := 1; ; n++ {
		m := &meter{what: "answer", limit: pageLimit}
		if left < pageLimit {
			m.what, m.limit, m.of = "list", left, listLimit
		}
		page, err := f.page(ctx, at, o, m)
		switch {
		case apierrors.IsResourceExpired(err) && o.Continue != "":
			whole, o.Continue, o.Limit = &internalversion.List{}, "", 0
			continue
		case err != nil:
			return nil, err
		}
		if n == 1 || o.Continue == "" {
			whole.ListMeta = page.ListMeta
		}
		whole.Items = append(whole.Items, page.Items...)
		if page.Continue == "" {
			whole.Continue, whole.RemainingItemCount = "", nil
			return whole, nil
		}
		if n == mostPages {
			return nil, &excessError{what: "list", limit: int64(mostPages), unit: "pages"}
		}
		left -= m.read.Load()
		o.Continue = page.Continue
	}
}

// page asks for one page.
func (f *follower) page(ctx context.Context, at *access, o metav1.ListOptions, m *meter) (*internalversion.List, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	list := f.kind.list()
	if err := at.get(f.kind, o).Do(metered(ctx, m)).Into(list); err != nil {
		// It may be wrapped in words of client-go's, and of HTTP/2's.
		if excess := m.excess(); excess != nil {
			err = errors.Join(excess, err)
		}
		return nil, err
	}
	return f.kind.page(list), nil
}
