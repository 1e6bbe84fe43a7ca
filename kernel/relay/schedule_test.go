package relay

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
)

// endpointsOf makes endpoints of these weights.
func endpointsOf(weights ...uint32) []*endpoint {
	var all []*endpoint
	for i, w := range weights {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 80)
		all = append(all, newEndpoint(kernel.Real{Key: kernel.RealKey{Addr: at}, Weight: w}))
	}
	return all
}

func weightAbove0(e *endpoint) bool { return e.weight > 0 }

// chosen counts the choices for n clients with addresses of their own.
func chosen(scheduler string, all []*endpoint, n int, hold bool) []int {
	var s schedule
	v := kernel.Virtual{Scheduler: scheduler}
	got := make([]int, len(all))
	for i := range n {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 168, byte(i >> 8), byte(i)}), 1000)
		e := s.choose(&v, all, client, false, weightAbove0)
		got[slices.Index(all, e)]++
		if hold {
			e.active.Add(1)
		}
	}
	return got
}

func TestShares(t *testing.T) {
	for _, c := range []struct {
		scheduler string
		weights   []uint32
		hold      bool // connections stay
		want      []int
	}{
		{"rr", []uint32{3, 0, 1, 1}, false, []int{200, 0, 200, 200}},
		{"wrr", []uint32{3, 2, 1, 0}, false, []int{300, 200, 100, 0}},
		{"wrr", []uint32{65535, 65535, 0}, false, []int{300, 300, 0}},
		{"lc", []uint32{3, 0, 1, 1}, true, []int{200, 0, 200, 200}},
		{"lc", []uint32{3, 0, 1, 1}, false, []int{200, 0, 200, 200}},
		{"wlc", []uint32{3, 2, 1, 0}, true, []int{300, 200, 100, 0}},
		{"wlc", []uint32{3, 2, 1, 0}, false, []int{300, 200, 100, 0}},
	} {
		if got := chosen(c.scheduler, endpointsOf(c.weights...), 600, c.hold); !slices.Equal(got, c.want) {
			t.Errorf("%s with weights %v, hold %v: %v, want %v", c.scheduler, c.weights, c.hold, got, c.want)
		}
	}
	// By client the shares are random: five standard deviations.
	got := chosen("sh", endpointsOf(3, 2, 1, 0), 6000, false)
	for i, want := range []float64{3000, 2000, 1000, 0} {
		if d := math.Abs(float64(got[i]) - want); d > 5*math.Sqrt(want) {
			t.Errorf("sh: %v", got)
		}
	}
}

// A busy endpoint gets nothing, and half-closed connections weigh little.
func TestLeastConnections(t *testing.T) {
	all := endpointsOf(1, 1)
	all[0].active.Store(1)
	all[1].inactive.Store(255)
	if got := chosen("lc", all, 10, false); got[0] != 0 {
		t.Errorf("%v", got)
	}
	all[1].inactive.Store(257)
	if got := chosen("lc", all, 10, false); got[1] != 0 {
		t.Errorf("%v", got)
	}
}

// An endpoint is full at its upper threshold, until it has fewer connections than the lower one, or than three quarters.
func TestThresholds(t *testing.T) {
	for _, c := range []struct {
		upper, lower uint32
		resumes      int64
	}{{8, 4, 3}, {8, 8, 7}, {8, 0, 5}, {1, 0, 0}} {
		e := newEndpoint(kernel.Real{Weight: 1, Upper: c.upper, Lower: c.lower})
		count := func(n int64) {
			e.active.Store(n/2 + n%2)
			e.inactive.Store(n / 2)
			e.fill()
		}
		for n := int64(0); n < 10; n++ {
			if count(n); e.full != (n >= int64(c.upper)) {
				t.Errorf("%+v: full is %t with %d connections", c, e.full, n)
			}
		}
		for n := int64(9); n >= 0; n-- {
			if count(n); e.full != (n > c.resumes) {
				t.Errorf("%+v: full is %t when there are %d again", c, e.full, n)
			}
		}
	}
	e := newEndpoint(kernel.Real{Upper: 1})
	e.active.Store(1)
	e.set(kernel.Real{})
	if e.full {
		t.Error("full without a limit")
	}
}

// With sh, an endpoint that leaves moves its own clients only, and one that is added takes its share
// from all. The same holds for the next choice after an endpoint that is dead.
func TestByClientMovesFew(t *testing.T) {
	all := endpointsOf(1, 1, 1, 1, 1)
	client := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 168, byte(i >> 8), byte(i)}), uint16(i))
	}
	moved := 0
	for i := range 1000 {
		before := byClient(all, client(i), false, weightAbove0)
		after := byClient(all[:4], client(i), false, weightAbove0)
		if before != all[4] && after != before {
			t.Fatalf("client %d moved from an endpoint that stayed", i)
		}
		if before == all[4] {
			moved++
		}
		again := netip.AddrPortFrom(client(i).Addr(), 7)
		if byClient(all, again, false, weightAbove0) != before {
			t.Fatalf("client %d has another endpoint from another port", i)
		}
	}
	if moved < 130 || moved > 270 {
		t.Errorf("%d of 1000 clients moved, want about 200", moved)
	}
	ports := map[*endpoint]bool{}
	for i := range 100 {
		ports[byClient(all, netip.AddrPortFrom(client(1).Addr(), uint16(i)), true, weightAbove0)] = true
	}
	if len(ports) != 5 {
		t.Errorf("sh-port: %d endpoints for 100 ports", len(ports))
	}
}

// The choice survives a restart and is the same on all nodes.
func TestByClientIsStable(t *testing.T) {
	all := endpointsOf(1, 1, 1, 1, 1)
	var got []int
	for i := range 12 {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 1000)
		got = append(got, slices.Index(all, byClient(all, client, false, weightAbove0)))
	}
	if want := "[3 4 4 1 3 2 0 0 1 4 4 3]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// Endpoints come, go and change weight between choices; every choice is right for its scheduler.
func TestScheduleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := kernel.Virtual{Scheduler: rapid.SampledFrom(kernel.RelaySchedulers).Draw(t, "scheduler")}
		var s schedule
		var all []*endpoint
		addresses := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				e := endpointsOf(uint32(rapid.IntRange(0, 5).Draw(t, "weight")))[0]
				e.hash = mix(uint64(addresses))
				addresses++
				i := rapid.IntRange(0, len(all)).Draw(t, "at")
				s.inserted(i)
				all = slices.Insert(all, i, e)
			},
			"remove": func(t *rapid.T) {
				if len(all) > 0 {
					i := rapid.IntRange(0, len(all)-1).Draw(t, "at")
					s.removed(i)
					all = slices.Delete(all, i, i+1)
				}
			},
			"weight": func(t *rapid.T) {
				if len(all) > 0 {
					all[rapid.IntRange(0, len(all)-1).Draw(t, "at")].weight = uint32(rapid.IntRange(0, 5).Draw(t, "weight"))
					s.stale = true
				}
			},
			"round": func(t *rapid.T) { round(t, &s, &v, all) },
			"choose": func(t *rapid.T) {
				client := netip.AddrPortFrom(netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "client"))), 1)
				second := rapid.Bool().Draw(t, "second")
				before := s.next
				e := s.choose(&v, all, client, second, weightAbove0)
				switch {
				case (e == nil) != !slices.ContainsFunc(all, weightAbove0):
					t.Fatalf("chose %v", e)
				case e != nil && e.weight == 0:
					t.Fatal("chose an endpoint of weight 0")
				case second && s.next != before:
					t.Fatal("a second choice took a turn")
				case e == nil:
				case v.Scheduler == "lc" || v.Scheduler == "wlc":
					leastModel(t, v.Scheduler, all, e)
				}
				if e != nil && rapid.Bool().Draw(t, "hold") {
					e.active.Add(1)
				}
			},
		})
	})
}

// round checks that rr and wrr give each endpoint its exact share in a round after a change.
func round(t *rapid.T, s *schedule, v *kernel.Virtual, all []*endpoint) {
	if v.Scheduler != "rr" && v.Scheduler != "wrr" {
		return
	}
	s.stale = true
	want, n := map[*endpoint]int{}, 0
	for _, e := range all {
		share := int(e.weight)
		if v.Scheduler == "rr" {
			share = min(share, 1)
		}
		if share > 0 {
			want[e] = share
		}
		n += share
	}
	got := map[*endpoint]int{}
	for range n {
		got[s.choose(v, all, netip.AddrPort{}, false, weightAbove0)]++
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s: %v, want %v", v.Scheduler, got, want)
	}
}

// leastModel checks a choice of lc and wlc against all endpoints.
func leastModel(t *rapid.T, scheduler string, all []*endpoint, got *endpoint) {
	load := func(e *endpoint) float64 {
		if scheduler == "lc" {
			return float64(e.active.Load())
		}
		return float64(e.active.Load()) / float64(e.weight)
	}
	for _, e := range all {
		if e.weight > 0 && load(e) < load(got)-1e-9 {
			t.Fatalf("%s chose a load of %v, there is one of %v", scheduler, load(got), load(e))
		}
	}
}
