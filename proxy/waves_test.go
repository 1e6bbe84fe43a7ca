package proxy_test

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

// wide returns so many services with an endpoint each, in the order of their addresses.
func wide(services int) sources.Table {
	var t sources.Table
	for i := range services {
		s := table(1).Services[0]
		s.Name = "web" + string(rune('a'+i/100)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10))
		s.ClusterIPs = []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i / 250), byte(i%250 + 1)})}
		t.Services = append(t.Services, s)
	}
	return t
}

// A table that arrives during a long load is planned after the wave that runs, and served before the load ends. The loop
// says how many VIPs are loaded, answers meanwhile, and Confirm waits for the whole.
func TestTableDuringALoadIsPlannedBetweenWaves(t *testing.T) {
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
		if now == nil || now.NewVIPs != count || now.VIPs < 100 || now.VIPs > 700 || !strings.Contains(now.String(), "of 2000 new VIPs are loaded") {
			t.Fatalf("after a quarter of the load it is at %+v", now)
		}
		changed := wide(count)
		changed.Services[0].Endpoints[0].Weight = 7
		changed.Services = append(changed.Services, wide(count + 1).Services[count])
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
		if s := r.proxy.Snapshot(); s == nil || s.Report.Left == 0 || s.Report.Cause != proxy.CauseStart {
			t.Errorf("the plan that stopped: %+v", s)
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
		if n := strings.Count(log.String(), "msg=synced"); n != 2 || strings.Count(log.String(), " left=") != 1 {
			t.Errorf("logged:\n%s", log.String())
		}
		r.end()
	})
}

// A source that changes all the time does not keep a load from its end.
func TestLoadEndsUnderConstantChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) {
			r.kernel.Fail = func(o kernel.Op) error {
				if o.Object.Kind() == kernel.KindReal {
					time.Sleep(10 * time.Millisecond)
				}
				return nil
			}
		})
		const count = 1000
		r.source <- emission{table: wide(count)}
		for i := range 150 {
			pass(100 * time.Millisecond)
			changed := wide(count)
			changed.Services[0].Endpoints[0].Weight = uint32(i + 2)
			r.source <- emission{table: changed}
		}
		pass(time.Second)
		if n := len(r.kernel.State().Virtuals); n != count {
			t.Errorf("%d virtual servers after 15 s", n)
		}
		r.end()
	})
}
