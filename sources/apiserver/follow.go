//go:build !noapiserver

package apiserver

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// follower keeps one kind of the catalog up to date. client-go's reflector lists and watches, with bookmarks, and
// lists again after a 410. Retries are made here, because the reflector's pauses are up to a minute and are not
// reported, and after some failures it makes none.
type follower struct {
	kind    kind
	at      *connection
	catalog *catalog

	mu    sync.Mutex // of the following fields, which a watch's goroutine writes
	pace  pace
	early int  // watches in a row that ended early or were refused as expired
	wait  bool // the last one was such, and there was no pause since
}

// run follows the kind until ctx ends.
func (f *follower) run(ctx context.Context) {
	r := cache.NewReflectorWithOptions(&cache.ListWatch{
		// The reflector's own context for lists never ends.
		ListWithContextFunc:  func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) { return f.list(ctx, o) },
		WatchFuncWithContext: f.watch,
	}, f.kind.example, f.kind.store, cache.ReflectorOptions{Name: f.kind.resource})
	r.WatchListPageSize = pageSize
	// A connection reset looks like an internal error: retry the watch before a list.
	r.MaxInternalErrorRetryDuration = longPause
	for ctx.Err() == nil {
		// The failed request has noted its error. Without an error the watch cannot be resumed: list again.
		err := r.ListAndWatchWithContext(ctx)
		f.pause(ctx, err)
	}
}

// watch retries until it is answered, so that after an outage the watch resumes without a list. It returns only an
// error that a retry would not change.
func (f *follower) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if f.toWait() {
		f.pause(ctx, nil)
	}
	o.Watch = true
	for {
		at := f.at.current()
		w, err := f.begin(ctx, at, o)
		if err == nil {
			f.catalog.answered(f.kind.resource)
			return w, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		if !passes(err) {
			f.ended(err)
			return nil, err
		}
		f.failed(ctx, at, err)
		f.pause(ctx, err)
	}
}

// begin requests a watch once. It gives up if there is no answer: a proxy in between may take the request and
// then never answer, and no timeout of the connection would end that.
func (f *follower) begin(ctx context.Context, at *access, o metav1.ListOptions) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(unanswered(o), cancel)
	m := &meter{what: "watch event", limit: eventLimit}
	w, err := at.get(f.kind, o).Watch(metered(ctx, m))
	switch gaveUp := !late.Stop(); {
	case gaveUp && err == nil: // it was answered at that moment
		w.Stop()
		err = errNoAnswer
	case gaveUp, err == nil && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch()):
		err = errNoAnswer
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return f.observe(w, cancel, m, longest(o)), nil
}

// unanswered is how long a watch may be without an answer, which a proxy in between may delay until the first event. It
// is a variable for the tests.
var unanswered = longest

// longest is how long a watch may last: somewhat longer than requested.
func longest(o metav1.ListOptions) time.Duration {
	asked := 10 * time.Minute // the longest that the reflector requests
	if o.TimeoutSeconds != nil {
		asked = time.Duration(*o.TimeoutSeconds) * time.Second
	}
	return asked + 30*time.Second
}

// passes says whether a failed watch may be retried at the same resource version. It may not if the API server no
// longer has that version, or not yet. After a restore of etcd it may never have it.
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

// failed notes an outage, unless the credentials have changed: then the next request decides.
func (f *follower) failed(ctx context.Context, at *access, err error) {
	if ctx.Err() == context.Canceled {
		return // the source ends
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

// pause waits before the next attempt, at least as long as the API server asks.
func (f *follower) pause(ctx context.Context, err error) {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	select {
	case <-ctx.Done():
	case <-time.After(f.next(seconds, errors.As(err, new(*excessError)))):
	}
}

// next is the length of a pause; sore is as in pace.
func (f *follower) next(seconds int, sore bool) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wait = false
	return f.pace.next(seconds, sore || f.early > 0)
}

// toWait says whether the next watch needs a pause before it.
func (f *follower) toWait() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wait
}
