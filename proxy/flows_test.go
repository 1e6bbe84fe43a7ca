package proxy_test

import (
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// udp returns what rules returns, over UDP.
func udp(t sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
	f, s := rules(t, n, occupied)
	var reals []kernel.Real
	for _, r := range s.Reals.All() {
		r.Key.Virtual.Proto = kernel.UDP
		reals = append(reals, r)
	}
	s.Reals = kernel.RealsOf(reals)
	for i := range s.Virtuals {
		s.Virtuals[i].Key.Proto = kernel.UDP
	}
	entries := s.Entries.Slice()
	for i := range entries {
		entries[i].Proto = kernel.UDP
	}
	s.Entries = kernel.EntriesOf(entries)
	return f, s
}

// The kernel shows no difference after an endpoint has gone and its tracked flows have not. Their removal is tried again until
// it succeeds, unless the endpoint is back.
func TestFlowsThatStayAreRemovedLater(t *testing.T) {
	for _, c := range []struct {
		name     string
		refusals int // of the removal
		then     int // endpoints after the first refusal
		removed  int
	}{
		{"not refused", 0, 1, 1},
		{"refused thrice", 3, 1, 1},
		{"refused until the endpoint is back", 1, 2, 0},
		{"refused until its service is gone", 2, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gone := netip.MustParseAddrPort("10.2.0.2:8080")
				var refused, removed int
				r := start(t, func(r *run) {
					r.options.Rules = udp
					r.kernel.Fail = func(o kernel.Op) error {
						switch f, ok := o.Object.(kernel.Flow); {
						case !ok || f.Key.Addr != gone:
						case refused < c.refusals:
							refused++
							return syscall.EBUSY
						default:
							removed++
						}
						return nil
					}
				})
				defer r.end()
				r.emit(table(2))
				r.emit(table(1))
				if c.then > 0 {
					r.emit(table(c.then))
				} else {
					r.emit(sources.Table{})
				}
				pass(time.Minute)
				if err := r.last().Err; err != nil {
					t.Errorf("last sync: %v", err)
				}
				if removed != c.removed {
					t.Errorf("removed %d times, want %d", removed, c.removed)
				}
			})
		})
	}
}
