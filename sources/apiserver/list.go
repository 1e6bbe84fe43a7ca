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
	pageSize    = 1000        // objects in one answer: about 2 MB of services
	pageTimeout = time.Minute // for one page; the API server ends a watch
)

// Limits of a list and its parts. Kubernetes is tested up to 150,000 pods and 10,000 services: in JSON the list of
// their slices has 100 MB, and a page of it 45 MB. They are variables for the tests.
var (
	mostPages        = 500
	pageLimit  int64 = 64 << 20  // bytes of one answer, all of which is in memory
	listLimit  int64 = 512 << 20 // bytes of all answers of a list
	eventLimit int64 = 32 << 20  // bytes of one watch event; client-go's own limit, where it has one, is 16 MB
)

// list requests a whole list, because the reflector's own paging has no limit. It always asks for the newest state: a
// list from the API server's cache could be older than what the node has, and comes without pages.
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

// pages requests one page after the other. If the continue token has expired, it requests the whole list at once.
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

// page requests one page.
func (f *follower) page(ctx context.Context, at *access, o metav1.ListOptions, m *meter) (*internalversion.List,
	error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	list := f.kind.list()
	if err := at.get(f.kind, o).Do(metered(ctx, m)).Into(list); err != nil {
		// client-go and HTTP/2 may have wrapped the error without %w.
		if excess := m.excess(); excess != nil {
			err = errors.Join(excess, err)
		}
		return nil, err
	}
	return f.kind.page(list), nil
}
