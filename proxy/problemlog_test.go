package proxy_test

import (
	"bytes"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/sources"
)

func TestRefusalsAreLoggedOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := start(t, func(r *run) { r.options.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		defer r.end()
		refused := func(messages ...string) {
			rejected := &sources.RejectedError{}
			for _, m := range messages {
				rejected.Problems = append(rejected.Problems, sources.Problem{Message: m})
			}
			r.source <- emission{table(1), rejected}
			synctest.Wait()
		}
		r.emit(table(1))
		refused("no key endponts")
		refused("no key endponts", "no port")
		refused("no key endponts", "no port")
		r.emit(table(1))
		refused("no port")
		for message, want := range map[string]int{"no key endponts": 1, "no port": 2, "nothing is refused any more": 1} {
			if got := strings.Count(log.String(), message); got != want {
				t.Errorf("%q is said %d times, want %d:\n%s", message, got, want, log.String())
			}
		}
	})
}

// A conflict is logged once for as long as it lasts.
func TestConflictIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		foreign := kernel.Virtual{Key: kernel.VirtualAt(netip.MustParseAddrPort("10.96.0.1:80"), kernel.TCP), Scheduler: "sed", Netmask: 32}
		r := start(t, func(r *run) {
			r.kernel = fake.New(names, kernel.Node{}, kernel.State{Virtuals: []kernel.Virtual{foreign}})
			r.options.Kernel, r.options.Log = r.kernel, slog.New(slog.NewTextHandler(&log, nil))
		})
		defer r.end()
		r.emit(table(1))
		pass(5 * time.Minute)
		if n := strings.Count(log.String(), "not taken over"); n != 1 {
			t.Errorf("said %d times:\n%s", n, log.String())
		}
		if err := r.kernel.Apply(t.Context(), kernel.Plan{Ops: []kernel.Op{{Verb: kernel.Remove, Object: foreign}}}); err != nil {
			t.Fatal(err)
		}
		pass(31 * time.Second)
		if got := r.weights(); !slices.Equal(got, []uint32{1}) {
			t.Errorf("weights %v after the other one has gone", got)
		}
	})
}
