//go:build !noapiserver

package apiserver

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

const (
	pageSize    = 1000        // objects of a list in one answer: about 2 MB of services
	pageTimeout = time.Minute // for one of them; a watch ends by the API server's own
)

// Pauses after a failure: the first, then twice as long each time up to the longest, give or take half.
// Variables for the tests, which have no time.
var (
	firstPause = time.Second / 2
	longPause  = 15 * time.Second
)

// follower keeps the catalog at what one kind is at the API server: client-go's reflector does the
// listing and watching, with its bookmarks and what a 410 asks for. Asking again after a failure is done
// here: the reflector's pauses are up to a minute and would be silent.
type follower struct {
	kind    kind
	at      *connection
	catalog *catalog

	pauses int       // of late, one after the other
	paused time.Time // when the last one ended
}

// run goes on until ctx ends.
func (f *follower) run(ctx context.Context) {
	r := cache.NewReflectorWithOptions(&cache.ListWatch{
		// The reflector lists under a context of its own, that never ends.
		ListWithContextFunc:  func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) { return f.list(ctx, o) },
		WatchFuncWithContext: f.watch,
	}, f.kind.example, f.kind.store, cache.ReflectorOptions{Name: f.kind.resource})
	r.WatchListPageSize = pageSize
	// A connection that is reset looks like an internal error: try the watch before a list.
	r.MaxInternalErrorRetryDuration = longPause
	for ctx.Err() == nil {
		// What failed was noted by the request that did. Without an error it is a watch that cannot go on
		// where it was: list again.
		err := r.ListAndWatchWithContext(ctx)
		f.pause(ctx, retryAfter(err))
	}
}

// list asks for one page. It always asks for what is now: a list of what a cache may still have could
// take the node back in time, and would be sent whole.
func (f *follower) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	o.ResourceVersion, o.ResourceVersionMatch = "", ""
	list, at := f.kind.list(), f.at.current()
	if err := at.get(f.kind, o).Do(ctx).Into(list); err != nil {
		if !apierrors.IsResourceExpired(err) { // that is the reflector's to begin again
			f.failed(ctx, at, err)
		}
		return nil, err
	}
	return f.kind.page(list), nil
}

// watch asks until it is answered, so that after an outage the watch goes on where it was, without a
// list of everything. Only an answer that asking again would not change is given back.
func (f *follower) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	for {
		at := f.at.current()
		w, err := at.get(f.kind, o).Watch(ctx)
		if err == nil && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch()) {
			err = errNoAnswer
		}
		if err == nil {
			f.catalog.answered(f.kind.resource)
			return w, nil
		}
		if ctx.Err() != nil || !passes(err) {
			return nil, err
		}
		f.failed(ctx, at, err)
		f.pause(ctx, retryAfter(err))
	}
}

// passes says whether a watch that failed may be had later at the same place. Not if the API server no
// longer has the place, or has not come to it: after a restore of etcd it may never.
func passes(err error) bool {
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // there was no answer
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	default:
		return code >= http.StatusInternalServerError
	}
}

// failed notes an outage, unless there are other credentials by now: then what comes of those will tell.
func (f *follower) failed(ctx context.Context, at *access, err error) {
	if ctx.Err() == context.Canceled {
		return // it is us who leave
	}
	now, renewal := f.at.renew()
	if now != at {
		return
	}
	why := reason(f.kind.resource, at.host, err)
	if renewal != nil {
		why, err = renewal.Error(), renewal
	}
	f.catalog.fail(outage{resource: f.kind.resource, reason: why, err: err, since: time.Now()})
}

// retryAfter is how long the API server asks to be left alone.
func retryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(seconds) * time.Second
}

// pause waits before the next attempt, at least as long as asked for.
func (f *follower) pause(ctx context.Context, least time.Duration) {
	if time.Since(f.paused) > 4*longPause {
		f.pauses = 0
	}
	d := min(firstPause<<min(f.pauses, 10), longPause)
	f.pauses++
	d = max(least, d/2+rand.N(d)) // apart from other nodes
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	f.paused = time.Now()
}
