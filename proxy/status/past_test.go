package status

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// counted are counters of services whose virtual servers have these numbers of connections.
func counted(conns ...uint64) (kernel.Counters, *frontend.Frontends) {
	var c kernel.Counters
	var t sources.Table
	f := &frontend.Frontends{}
	for i, n := range conns {
		key := kernel.VirtualKey{Addr: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), Port: 80, Proto: kernel.TCP}
		c.Virtuals = append(c.Virtuals, kernel.VirtualCounters{Key: key, Traffic: kernel.Traffic{Conns: n, InBytes: 1000 * n}})
		t.Services = t.Services.Append(sources.Service{Namespace: "default", Name: fmt.Sprintf("s%d", i)})
		f.Fronts = append(f.Fronts, frontend.Front{Key: key, Service: int32(i)})
	}
	f.Table = t
	return c, f
}

func TestPast(t *testing.T) {
	var p Past
	now := time.Unix(1e9, 0)
	sample := func(conns ...uint64) {
		c, f := counted(conns...)
		p.add(now, c.Virtuals, f)
		now = now.Add(PastPeriod)
	}
	sample(100, 0)
	sample(200, 0)
	sample(200, 50)
	sample(100, 50) // the first one was made again
	now = now.Add(time.Minute)
	sample(900, 900)
	v := p.View([]string{"s0", "s1", "none"})
	for name, c := range map[string]struct{ got, want []float32 }{
		"all":  {v.Connections, []float32{-1, 10, 5, 10, -1}},
		"in":   {v.In, []float32{-1, 10000, 5000, 10000, -1}},
		"s0":   {v.Services["s0"].Connections, []float32{-1, 10, 0, 10, -1}},
		"s1":   {v.Services["s1"].Connections, []float32{-1, 0, 5, 0, -1}},
		"none": {v.Services["none"].Connections, nil},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	sample(1000, 900)
	if r := p.Rates(); len(r) != 1 || r["s0"] != (PastRate{10, 10000, 0}) {
		t.Errorf("the last rates are %v", r)
	}
	if r := new(Past).Rates(); len(r) != 0 {
		t.Errorf("without a sample: %v", r)
	}
}

// A virtual server that was made again may have more of one counter and less of another.
func TestPastOfOneMadeAgain(t *testing.T) {
	var p Past
	now := time.Unix(1e9, 0)
	for _, out := range []uint64{5000, 1000} {
		c, f := counted(100)
		c.Virtuals[0].Traffic.OutBytes = out
		p.add(now, c.Virtuals, f)
		now = now.Add(PastPeriod)
	}
	if v := p.View(nil); v.Out[1] != 100 {
		t.Errorf("%v bytes per second, want 100", v.Out[1])
	}
}

// However many services there are and however long it runs, the past has a bounded size.
func TestPastIsBounded(t *testing.T) {
	var p Past
	now := time.Unix(1e9, 0)
	conns := make([]uint64, maxPast+10)
	for range pastSamples + 5 {
		for i := range conns {
			conns[i] += 10
		}
		c, f := counted(conns...)
		p.add(now, c.Virtuals, f)
		now = now.Add(PastPeriod)
	}
	if v := p.View([]string{"s1"}); len(p.services) != maxPast || len(v.Connections) != pastSamples || len(v.Services["s1"].Connections) != pastSamples {
		t.Errorf("%d services, %d samples", len(p.services), len(v.Connections))
	}
	for range pastSamples {
		c, f := counted(conns...)
		p.add(now, c.Virtuals, f)
		now = now.Add(PastPeriod)
	}
	if len(p.services) != 0 {
		t.Errorf("%d services are known though they had no traffic for ten minutes", len(p.services))
	}
}
