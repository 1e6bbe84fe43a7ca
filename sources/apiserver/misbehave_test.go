//go:build !noapiserver

package apiserver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// misbehaviour answers requests for services; it returns true if it did.
type misbehaviour func(w http.ResponseWriter, q *http.Request, n int32) bool

func isWatch(q *http.Request) bool { return q.URL.Query().Get("watch") == "true" }

// sends answers every watch with these frames, and ends it.
func sends(frames ...string) misbehaviour {
	return func(w http.ResponseWriter, q *http.Request, _ int32) bool {
		if !isWatch(q) {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		for _, f := range frames {
			fmt.Fprintln(w, f)
		}
		return true
	}
}

// TestMisbehaviour: whatever the API server does, requests are limited, the cause is reported, and the table stays until
// the API server works again.
func TestMisbehaviour(t *testing.T) {
	for _, c := range []struct {
		name string
		does misbehaviour
		says string
	}{
		{"watch expired", func(w http.ResponseWriter, q *http.Request, _ int32) bool {
			if isWatch(q) {
				fail(w, http.StatusGone, metav1.StatusReasonExpired, "too old")
			}
			return isWatch(q)
		}, "every watch is refused as expired"},
		{"expired in stream", sends(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old","code":410}}`),
			"every watch is refused as expired"},
		{"error in stream", sends(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","message":"no","code":500}}`),
			"sends watch events that cannot be read"},
		{"no JSON", sends(`{"type":"ADDED","object":`, `nonsense}`), "sends watch events that cannot be read"},
		{"unknown event", sends(`{"type":"FROBBED","object":{"kind":"Service","apiVersion":"v1"}}`), "sends watch events that cannot be read"},
		{"another kind", sends(`{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"200"}}}`),
			"sends watch events that cannot be read"},
		{"ended at once", sends(), "ends every watch at once"},
		{"ended after a bookmark", sends(`{"type":"BOOKMARK","object":{"kind":"Service","apiVersion":"v1","metadata":{"resourceVersion":"103"}}}`),
			"ends every watch at once"},
		{"list expired", func(w http.ResponseWriter, q *http.Request, _ int32) bool {
			fail(w, http.StatusGone, metav1.StatusReasonExpired, "too old")
			return true
		}, "answers 410"},
		{"endless pages", lists(func(w io.Writer, n int32) {
			fmt.Fprintf(w, `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"100","continue":"%d"},"items":[]}`, n)
		}), "the list has more than 20 pages"},
		{"endless page", lists(func(w io.Writer, _ int32) { endless(w, 100<<20) }), "the answer has more than 4 MiB"},
		{"large pages", lists(func(w io.Writer, n int32) {
			fmt.Fprintf(w, `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"100","continue":"%d"},"items":[%s]}`,
				n, strings.Repeat(" ", 3<<20))
		}), "the list has more than 10 MiB"},
		{"endless error", func(w http.ResponseWriter, q *http.Request, _ int32) bool {
			w.WriteHeader(http.StatusGone)
			endless(w, 100<<20)
			return true
		}, "has more than"},
		{"endless event", func(w http.ResponseWriter, q *http.Request, _ int32) bool {
			if !isWatch(q) {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"type":"ADDED","object":{"kind":"Service","apiVersion":"v1","metadata":{"name":"`)
			endless(w, 100<<20)
			return true
		}, "sends watch events that cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, Options{ContentType: "application/json"}, whole)
			r.want(wholeTable)
			var n atomic.Int32
			r.intercept(func(w http.ResponseWriter, q *http.Request) bool {
				return strings.HasSuffix(q.URL.Path, "/services") && c.does(w, q, n.Add(1))
			})
			r.cutWatches()
			r.wait(c.says, func(e emission) bool {
				if n := e.table.Services.Len(); n != 0 && n != 2 {
					t.Errorf("the table does not stay: %s", e)
				}
				return e.err != nil && strings.Contains(e.err.Error(), c.says)
			})
			before, begin := n.Load(), time.Now()
			time.Sleep(time.Second)
			// With a busy machine none may end in a second: what follows shows that attempts go on. Five attempts make pauses of a second at least: 10, 20, 40 ms, ... 0.2 s. Each is a list of up to
			// 20 pages, begun again once at most, and a watch.
			most := int32(12 * 3)
			if strings.Contains(c.name, "pages") {
				most = 12 * 21
			}
			if n, seconds := n.Load()-before, int32(1+time.Since(begin)/time.Second); n > most*seconds {
				t.Errorf("%d requests in %d seconds, want %d in each at most", n, seconds, most)
			}
			for len(r.emits) > 0 {
				if e := <-r.emits; e.err == nil || !strings.Contains(e.err.Error(), c.says) {
					t.Errorf("said in between: %s", e)
				}
			}
			r.intercept(nil)
			r.put(svc("new", "10.96.0.3"))
			r.want("db, new, web 10.2.0.1")
		})
	}
}

// lists refuses all watches and answers lists by write.
func lists(write func(w io.Writer, n int32)) misbehaviour {
	return func(w http.ResponseWriter, q *http.Request, n int32) bool {
		if isWatch(q) {
			fail(w, http.StatusGone, metav1.StatusReasonExpired, "too old")
			return true
		}
		w.Header().Set("Content-Type", "application/json")
		write(w, n)
		return true
	}
}

// endless writes without end.
func endless(w io.Writer, bytes int) {
	block := []byte(strings.Repeat("a", 64<<10))
	for ; bytes > 0; bytes -= len(block) {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}
