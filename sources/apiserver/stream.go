//go:build !noapiserver

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// stream is a watch that reports its end to its follower.
type stream struct {
	watch.Interface
	out  chan watch.Event
	done chan struct{}
	stop func()
}

// observe passes a watch on. It ends the watch at an event with an object of another kind, which the reflector would
// ignore for ever. It also ends it after longest: normally the API server does, but a proxy in between may have lost
// the server and keep an idle watch open. At the end it calls cancel, which ends the request.
func (f *follower) observe(w watch.Interface, cancel context.CancelFunc, m *meter,
	longest time.Duration) watch.Interface {
	s := &stream{Interface: w, out: make(chan watch.Event), done: make(chan struct{})}
	s.stop = sync.OnceFunc(func() {
		close(s.done)
		w.Stop()
	})
	go func() {
		defer cancel()
		s.run(f, m, longest)
	}()
	return s
}

func (s *stream) ResultChan() <-chan watch.Event { return s.out }

func (s *stream) Stop() { s.stop() }

func (s *stream) run(f *follower, m *meter, longest time.Duration) {
	defer close(s.out)
	overdue := time.NewTimer(longest)
	defer overdue.Stop()
	lasting := time.NewTimer(steady)
	defer lasting.Stop()
	lasts := false
	over := func(err error) {
		if lasts {
			f.lasted()
		} else {
			f.ended(err)
		}
	}
	for {
		select {
		case <-s.done:
			return
		case <-lasting.C:
			lasts = true
			f.catalog.lasts(f.kind.resource)
		case <-overdue.C:
			s.Interface.Stop()
			over(nil)
			return
		case e, more := <-s.Interface.ResultChan():
			if !more {
				over(nil)
				return
			}
			m.reset()
			e = f.readable(e)
			bad := e.Type == watch.Error
			if bad {
				over(apierrors.FromObject(e.Object)) // before the follower sees the event
			}
			select {
			case <-s.done:
				return
			case s.out <- e:
			}
			if bad {
				return
			}
		}
	}
}

// readable turns an event about another kind of object into an error event.
func (f *follower) readable(e watch.Event) watch.Event {
	if e.Type == watch.Error || reflect.TypeOf(e.Object) == reflect.TypeOf(f.kind.example) {
		return e
	}
	return watch.Event{Type: watch.Error, Object: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: fmt.Sprintf("a %T in a watch of %s", e.Object, f.kind.resource),
	}}
}

// tolerated is how many watches in a row may end early before that is an outage. An API server that restarts, or a
// load balancer in front of several, ends one or two.
const tolerated = 2

// lasted notes the end of a watch that has lasted.
func (f *follower) lasted() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.early, f.pace = 0, 0
}

// ended notes a watch that ended early, or that the API server refused.
func (f *follower) ended(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.early++
	f.wait = true
	if f.early <= tolerated {
		return
	}
	host := f.at.current().host
	why := fmt.Sprintf("%s: %s ends every watch at once", f.kind.resource, host)
	switch status := (apierrors.APIStatus)(nil); {
	case err == nil:
		err = errors.New(why)
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		why = fmt.Sprintf("%s: every watch is refused as expired by %s", f.kind.resource, host)
	case errors.As(err, &status) && status.Status().Code != http.StatusInternalServerError:
		why = reason(f.kind.resource, host, err)
	default:
		why = fmt.Sprintf("%s: %s sends watch events that cannot be read", f.kind.resource, host)
	}
	f.catalog.fail(outage{resource: f.kind.resource, reason: why, err: err, since: time.Now(), watch: true})
}
