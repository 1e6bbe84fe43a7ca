//go:build !noapiserver

package apiserver

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/svcproxy/svcproxy/sources/manifest"
)

// whole fills an API server with two services.
func whole(r *rig) {
	r.put(svc("db", "10.96.0.2"), svc("web", "10.96.0.1"), eps("web-1", "web", "10.2.0.1"))
}

const wholeTable = "db, web 10.2.0.1"

// answer answers requests whose URL has all of the words with a Status. Without words it ends that.
func (r *rig) answer(code int, reason metav1.StatusReason, words ...string) {
	r.intercept(func(w http.ResponseWriter, q *http.Request) bool {
		for _, word := range words {
			if !strings.Contains(q.URL.String(), word) {
				return false
			}
		}
		if len(words) == 0 {
			return false
		}
		if code == http.StatusTooManyRequests { // as kube-apiserver's filter says it
			w.Header().Set("Retry-After", "1")
			http.Error(w, "Too many requests, please try again later.", code)
			return true
		}
		fail(w, code, reason, "no")
		return true
	})
}

// cutWatches ends all connections, and with them all watches.
func (r *rig) cutWatches() { r.CloseClientConnections() }

// TestAnswers goes through the errors that an API server may return: at the start, when only the reason may be emitted,
// and later, when nothing may be lost.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		code   int
		reason metav1.StatusReason
		words  []string
		want   string
		total  bool // nothing can be read
	}{
		{http.StatusForbidden, metav1.StatusReasonForbidden, []string{"/endpointslices"}, "endpointslices: forbidden: no: the account needs get, list and watch, see rbac.yaml", false},
		{http.StatusUnauthorized, metav1.StatusReasonUnauthorized, []string{"/"}, "does not accept the credentials (401 Unauthorized)", true},
		{http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, []string{"/"}, "has too many requests (429)", true},
		{http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, []string{"/"}, "is not available (503)", true},
		{http.StatusNotFound, metav1.StatusReasonNotFound, []string{"/endpointslices"}, "endpointslices: not found", false},
		{http.StatusInternalServerError, metav1.StatusReasonInternalError, []string{"/services"}, "services: https://127.0.0.1", false},
	} {
		t.Run(fmt.Sprint(c.code), func(t *testing.T) {
			t.Parallel()
			r := start(t, Options{}, func(r *rig) {
				whole(r)
				r.answer(c.code, c.reason, c.words...)
			})
			e := r.complains(c.want)
			if out := (*OutageError)(nil); !errors.As(e.err, &out) || out.Since.IsZero() || e.table.Services.Len() > 0 {
				t.Errorf("before anything was listed: %+v", e)
			}
			r.answer(0, "")
			r.want(wholeTable)

			r.answer(c.code, c.reason, c.words...)
			r.cutWatches()
			// The cut alone may put out the rest too, for a moment.
			r.wait(c.want, func(e emission) bool {
				if e.err == nil || !strings.Contains(e.err.Error(), c.want) {
					return false
				}
				outage := errors.As(e.err, new(*OutageError))
				if !outage && e.table.Services.Len() != 2 {
					t.Errorf("a service is lost: %s", e)
				}
				return outage == c.total
			})
			r.put(eps("web-1", "web", "10.2.0.9")) // during the outage
			r.answer(0, "")
			r.want("db, web 10.2.0.9")
		})
	}
}

// TestRetryAfter: an overloaded API server gets no request for as long as it asks.
func TestRetryAfter(t *testing.T) {
	var asked [2]atomic.Int64
	r := start(t, Options{}, func(r *rig) {
		whole(r)
		r.intercept(func(w http.ResponseWriter, q *http.Request) bool {
			if !strings.Contains(q.URL.Path, "services") || asked[1].Load() > 0 {
				return false
			}
			if now := time.Now().UnixNano(); !asked[0].CompareAndSwap(0, now) {
				asked[1].Store(now)
				return false
			}
			w.Header().Set("Retry-After", "1")
			http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
			return true
		})
	})
	r.want(wholeTable)
	if waited := time.Duration(asked[1].Load() - asked[0].Load()); waited < time.Second {
		t.Errorf("asked again after %s, want 1s", waited)
	}
}

// TestLost closes the API server's socket and opens it again on the same port.
func TestLost(t *testing.T) {
	r := start(t, Options{}, whole)
	r.want(wholeTable)
	// A watch that ends within its first second without an event counts as broken.
	r.put(svc("old", "10.96.0.4"), eps("web-1", "web", "10.2.0.2"))
	r.want("db, old, web 10.2.0.2")
	address := r.Listener.Addr().String()
	r.Server.Listener.Close()
	r.cutWatches()
	r.complains("cannot reach https://127.0.0.1", "connection refused")
	r.put(svc("new", "10.96.0.3"))
	lists := len(r.requests("limit="))

	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	again := &http.Server{Handler: r.api, TLSConfig: r.TLS}
	go again.ServeTLS(l, "", "")
	defer again.Close()
	r.want("db, new, old, web 10.2.0.2")
	if n := len(r.requests("limit=")) - lists; n > 0 {
		t.Errorf("%d lists, want the watches to go on where they were", n)
	}
}

// TestUnansweredWatch: a watch that gets no answer is an outage. It is requested again, and goes on where it was.
func TestUnansweredWatch(t *testing.T) {
	before := unanswered
	unanswered = func(metav1.ListOptions) time.Duration { return 200 * time.Millisecond }
	t.Cleanup(func() { unanswered = before }) // when the source has ended
	r := start(t, Options{}, whole)
	r.want(wholeTable)
	// A watch that ends within its first second without an event counts as broken.
	r.put(svc("old", "10.96.0.4"), eps("web-1", "web", "10.2.0.2"))
	r.want("db, old, web 10.2.0.2")
	lists := len(r.requests("limit="))
	r.intercept(func(w http.ResponseWriter, q *http.Request) bool {
		if !isWatch(q) || !strings.HasSuffix(q.URL.Path, "/services") {
			return false
		}
		<-q.Context().Done()
		return true
	})
	r.cutWatches()
	r.put(svc("new", "10.96.0.3"))
	r.complains("cannot reach https://127.0.0.1", "no answer")
	r.intercept(nil)
	r.want("db, new, old, web 10.2.0.2")
	if n := len(r.requests("limit=")) - lists; n > 0 {
		t.Errorf("%d lists, want the watch to go on where it was", n)
	}
}

// TestCompacted: the history during the outage is compacted, so everything is listed again.
func TestCompacted(t *testing.T) {
	r := start(t, Options{}, whole)
	r.want(wholeTable)
	r.answer(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "watch=true")
	r.cutWatches()
	r.complains("503")
	r.remove(svc("db", ""))
	r.put(eps("web-1", "web", "10.2.0.2"), svc("new", "10.96.0.3"))
	r.compact()
	r.answer(0, "")
	r.want("new, web 10.2.0.2")
}

// TestExpiredInStream: the 410 comes as an event of a watch that was answered.
func TestExpiredInStream(t *testing.T) {
	r := start(t, Options{ContentType: "application/json"}, whole)
	r.want(wholeTable)
	var said atomic.Bool
	r.intercept(func(w http.ResponseWriter, q *http.Request) bool {
		if !strings.Contains(q.URL.String(), "watch=true") || !strings.Contains(q.URL.Path, "services") || said.Swap(true) {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old","code":410}}`)
		return true
	})
	r.remove(svc("db", ""))
	r.want("web 10.2.0.1")
	r.cutWatches()
	r.put(svc("new", "10.96.0.3"))
	r.want("new, web 10.2.0.1")
	if !said.Load() {
		t.Error("no watch was told that it is too old")
	}
}

// TestCutInTheMiddle cuts connections after the first bytes of every list and watch, for a while.
func TestCutInTheMiddle(t *testing.T) {
	for _, what := range []string{"limit=", "watch=true"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var cuts atomic.Int32
			r := start(t, Options{}, func(r *rig) {
				whole(r)
				r.intercept(func(w http.ResponseWriter, q *http.Request) bool {
					if !strings.Contains(q.URL.String(), what) || cuts.Load() >= 4 {
						return false
					}
					cuts.Add(1)
					r.ServeHTTP(&short{ResponseWriter: w}, q)
					return true
				})
			})
			r.want(wholeTable)
			r.put(eps("web-1", "web", "10.2.0.2"))
			r.want("db, web 10.2.0.2")
		})
	}
}

// short is an answer that is cut after a few bytes.
type short struct{ http.ResponseWriter }

func (s *short) Write(p []byte) (int, error) {
	_, _ = s.ResponseWriter.Write(p[:min(len(p), 10)])
	s.ResponseWriter.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func (s *short) Flush() {}

// TestSaidOnce: an outage is one emission, however many attempts fail.
func TestSaidOnce(t *testing.T) {
	var tries atomic.Int32
	r := start(t, Options{NodeName: "n1", OnNode: func(manifest.Node) {}}, func(r *rig) {
		r.intercept(func(w http.ResponseWriter, q *http.Request) bool {
			tries.Add(1)
			fail(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "")
			return true
		})
	})
	deadline := time.Now().Add(patience)
	for tries.Load() < 9 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	for len(r.emits) > 0 {
		if e := <-r.emits; len(r.emits) > 1 || !strings.Contains(e.String(), "503") {
			t.Errorf("and %d more after %s", len(r.emits), e)
		}
	}
}

// TestNodeForbidden: services are served without the Node, and the error has the reason.
func TestNodeForbidden(t *testing.T) {
	r := start(t, Options{NodeName: "n1", OnNode: func(n manifest.Node) { t.Errorf("node %v", n) }}, func(r *rig) {
		whole(r)
		r.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
		r.answer(http.StatusForbidden, metav1.StatusReasonForbidden, "/nodes")
	})
	r.want(wholeTable + " ! nodes: forbidden: no: the account needs get, list and watch, see rbac.yaml")
	r.put(svc("new", "10.96.0.3"))
	r.want("db, new, web 10.2.0.1 ! nodes: forbidden: no: the account needs get, list and watch, see rbac.yaml")
}
