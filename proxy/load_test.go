package proxy_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// wide returns so many services with an endpoint each, in the order of their addresses.
func wide(services int) sources.Table {
	var t sources.Table
	for i := range services {
		s := *table(1).Services.At(0)
		s.Name = fmt.Sprintf("web%05d", i)
		s.ClusterIPs = []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i / 250), byte(i%250 + 1)})}
		t.Services = t.Services.Append(s)
	}
	return t
}

// A table that arrives during a long load is planned with the next part of it, and served before the load ends. The
// loop says how many VIPs are loaded, answers meanwhile, and Confirm waits for the whole.
func TestTableDuringALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var reals, weight atomic.Uint32 // made so far, and the largest; the fake kernel is locked during a plan
		r := start(t, func(r *run) {
			r.options.Log = slog.New(slog.NewTextHandler(&log, nil))
			r.kernel.Fail = func(o kernel.Op) error {
				if v, ok := o.Object.(kernel.Real); ok {
					reals.Add(1)
					weight.Store(max(weight.Load(), v.Weight))
					time.Sleep(10 * time.Millisecond)
				}
				return nil
			}
		})
		const count = 2000
		r.source <- emission{table: wide(count)}
		pass(5 * time.Second)
		now := r.proxy.Running()
		if now == nil || now.NewVIPs != count || now.VIPs < 100 || now.VIPs > 1000 ||
			!strings.Contains(now.String(), "of 2000 new VIPs are loaded") {
			t.Fatalf("after a quarter of the load it is at %+v", now)
		}
		changed := wide(count)
		changed.Services.At(0).Endpoints[0].Weight = 7
		changed.Services = changed.Services.Append(*wide(count + 1).Services.At(count))
		r.source <- emission{table: changed}
		confirmed := make(chan *proxy.Snapshot, 1)
		go func() {
			s, err := r.proxy.Confirm(t.Context())
			if err != nil {
				t.Error(err)
			}
			confirmed <- s
		}()
		pass(7 * time.Second)
		if n := reals.Load(); n >= count || weight.Load() != 7 {
			t.Errorf("with %d real servers, the largest weight is %d", n, weight.Load())
		}
		if s := r.proxy.Snapshot(); s == nil || s.Report.Left == 0 || !s.Report.Causes.Has(proxy.CauseStart) {
			t.Errorf("the plan that stopped: %+v", s)
		} else if !s.Succeeded.IsZero() {
			t.Errorf("a plan that stopped counts as a success, at %v", s.Succeeded)
		}
		if next := r.proxy.Running(); next == nil || next.NewVIPs != count || next.VIPs <= now.VIPs || next.VIPs > count {
			t.Errorf("after %+v, the next plan goes on at %+v", now, next)
		}
		if len(confirmed) > 0 {
			t.Error("Confirm did not wait for the end")
		}
		pass(10 * time.Second)
		if s := <-confirmed; s.Report.Left > 0 || s.Report.Steps > 0 || s.Report.Err != nil {
			t.Errorf("confirmed: %+v", s.Report)
		}
		if n := len(r.kernel.State().Virtuals); n != count+1 {
			t.Errorf("%d virtual servers in the end", n)
		}
		if n := strings.Count(log.String(), "msg=synced"); n < 3 || strings.Count(log.String(), " left=") != n-1 {
			t.Errorf("logged:\n%s", log.String())
		}
		r.end()
	})
}

// A source that changes all the time does not keep a load from its end, however long a plan takes to make: at most
// half of the time goes into plans.
func TestLoadEndsUnderConstantChange(t *testing.T) {
	const count, planning, step = 2000, 2 * time.Second, 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var plans, made atomic.Int32
		began := time.Now()
		loaded := make(chan time.Duration, 1)
		r := start(t, func(r *run) {
			r.options.Rules = func(t sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
				if made.Load() < count {
					plans.Add(1)
				}
				time.Sleep(planning)
				return rules(t, n, occupied)
			}
			slow := slowReals(step)
			r.kernel.Fail = func(o kernel.Op) error {
				if o.Object.Kind() == kernel.KindReal && o.Verb == kernel.Add && made.Add(1) == count {
					loaded <- time.Since(began)
				}
				return slow(o)
			}
		})
		r.source <- emission{table: wide(count)}
		for i := 0; len(loaded) == 0 && i < 500; i++ {
			pass(planning / 3)
			changed := wide(count + i%2)
			changed.Services.At(0).Endpoints[0].Weight = uint32(i + 2)
			r.source <- emission{table: changed}
		}
		r.stop()
		<-r.done
		if len(loaded) == 0 {
			t.Fatalf("%d of %d real servers after %d plans", made.Load(), count, plans.Load())
		}
		took, n := <-loaded, time.Duration(plans.Load())
		t.Logf("loaded after %v and %d plans", took, n)
		if n < 2 || (n-2)*planning > took/2 { // how long planning takes shows with the first two
			t.Errorf("%d plans of %v until the table was loaded after %v", n, planning, took)
		}
	})
}

// slowReals makes each real server take a time.
func slowReals(step time.Duration) func(kernel.Op) error {
	return func(o kernel.Op) error {
		if o.Object.Kind() == kernel.KindReal {
			time.Sleep(step)
		}
		return nil
	}
}

// What a new table no longer has goes before the load of what it adds, and so does an endpoint that left a service.
func TestRemovalsDoNotWaitForALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made int // real servers
		var after []int
		r := start(t, func(r *run) {
			r.kernel.Fail = func(o kernel.Op) error {
				switch _, real := o.Object.(kernel.Real); {
				case real && o.Verb == kernel.Add:
					made++
				case o.Verb == kernel.Remove && (real || o.Object.Kind() == kernel.KindVirtual):
					after = append(after, made)
				}
				return nil
			}
		})
		defer r.end()
		before := wide(20)
		before.Services.At(10).Endpoints = append(before.Services.At(10).Endpoints, table(2).Services.At(0).Endpoints[1])
		r.emit(before)
		pass(10 * time.Second)
		now := wide(2000)
		now.Services = sources.ServicesOf(now.Services.Slice()[10:]...)
		made = 0
		r.emit(now)
		pass(30 * time.Second)
		if n := len(r.kernel.State().Virtuals); n != 1990 || len(after) != 11 || slices.Max(after) != 0 {
			t.Errorf("%d virtual servers; removals after so many new real servers: %v", n, after)
		}
	})
}

// News reaches the kernel within about 2 s during a load, and before new VIPs do: the load goes on after it. The first
// part, whose speed is not known, is over by then.
func TestNewsDuringALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var removed []time.Time
		slow := slowReals(6 * time.Millisecond)
		r := start(t, func(r *run) {
			r.kernel.Fail = func(o kernel.Op) error {
				if o.Object.Kind() == kernel.KindReal && o.Verb == kernel.Remove {
					removed = append(removed, time.Now())
				}
				return slow(o)
			}
		})
		defer r.end()
		const count = 2000
		withEndpoints := func(n int) sources.Table {
			t := wide(count)
			t.Services.At(0).Endpoints = table(n).Services.At(0).Endpoints
			return t
		}
		r.source <- emission{table: withEndpoints(3)}
		pass(7 * time.Second)
		for n := 2; n > 0; n-- {
			said := time.Now()
			r.source <- emission{table: withEndpoints(n)}
			pass(2100 * time.Millisecond)
			if running := r.proxy.Running(); running == nil || running.NewVIPs == 0 {
				t.Fatal("the load is over")
			}
			if len(removed) != 3-n {
				t.Errorf("%d endpoints of 1 are removed 2 s later", len(removed)-2+n)
			} else {
				t.Logf("removed after %v", removed[2-n].Sub(said))
			}
		}
		pass(time.Minute)
		if n := len(r.weights()); n != count {
			t.Errorf("%d real servers in the end", n)
		}
	})
}

// VIPs that the kernel refuses keep no others waiting, and a load past them is as any other: it goes in parts.
func TestLoadGoesOnPastRefusedVIPs(t *testing.T) {
	const refused, first, all = 200, 300, 2200
	for _, known := range []bool{false, true} { // whether they are refused before the load begins
		t.Run(fmt.Sprintf("known=%t", known), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := map[netip.Addr]int{}
				table := wide(all)
				for i := range all {
					at[table.Services.At(i).ClusterIPs[0]] = i
				}
				served := 0
				var allServed time.Time
				r := start(t, func(r *run) {
					r.kernel.Fail = func(o kernel.Op) error {
						switch v := o.Object.(type) {
						case kernel.Virtual:
							if at[v.Key.Addr] < refused {
								return errors.New("refused")
							}
						case kernel.Real:
							time.Sleep(time.Millisecond)
							if served++; served == all-refused {
								allServed = time.Now()
							}
						}
						return nil
					}
				})
				defer r.end()
				if known {
					r.emit(wide(first))
					pass(time.Minute)
				}
				began := time.Now()
				r.emit(table)
				pass(time.Minute)
				if took := allServed.Sub(began); allServed.IsZero() || took > 10*time.Second {
					t.Errorf("%d of %d VIPs are served; the last after %v", served, all-refused, took)
				}
				parts := 0
				for _, rep := range r.all() {
					if rep.Left > 0 {
						parts++
					}
				}
				if last := r.last(); parts < 1 || last.Left > 0 || last.Err == nil {
					t.Errorf("%d parts; the last sync left %d VIPs: %v", parts, last.Left, last.Err)
				}
			})
		})
	}
}
