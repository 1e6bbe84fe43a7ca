package traffic

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRandomOrders takes random steps: orders, changes of files, reloads, kills and restarts. After each one new clients
// of each service reach exactly the endpoints that its file and the orders leave. The steps are those of
// SVCPROXY_RANDOM_SEED.
func TestRandomOrders(t *testing.T) {
	few := 120
	if emulated() {
		few = 25
	}
	_, steps := endures(t, few, 0, 0)
	seed := uint64(1)
	if text := os.Getenv("SVCPROXY_RANDOM_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		must(t, err)
	}
	w := walk{node: newNode(t, ""), r: rand.New(rand.NewPCG(seed, 0)), orders: map[string]string{}}
	for i := range w.files {
		w.files[i] = walkedFile{1, 1, 1}
	}
	must(t, w.Serve(w.text()))
	must(t, w.Start())
	w.applied(t, "at the start")
	did := map[string]int{}
	for i := range steps {
		what := w.step(t)
		did[strings.Fields(what)[0]]++
		w.wantEndpoints(t)
		if t.Failed() {
			t.Fatalf("step %d of seed %d: %s; files %v, orders %v", i+1, seed, what, w.files, w.orders)
		}
	}
	t.Logf("%d steps: %v", steps, did)
}

// A walk has what must be true after the steps so far.
type walk struct {
	node
	r      *rand.Rand
	files  [2]walkedFile
	orders map[string]string // by "s0/10.2.1.10": drain, disable, or a weight
}

// A walkedFile has the weight of each endpoint of a service; -1 if the file does not have it.
type walkedFile [3]int

func endpointOf(service, pod int) string { return fmt.Sprintf("s%d/10.2.%d.10", service, pod+1) }

func (w *walk) text() string {
	var b strings.Builder
	for i, file := range w.files {
		var endpoints []string
		for pod, weight := range file {
			if weight >= 0 {
				endpoints = append(endpoints, fmt.Sprintf("{ address = \"10.2.%d.10\", weight = %d }", pod+1, weight))
			}
		}
		b.WriteString(clusterIP(fmt.Sprintf("s%d", i), fmt.Sprintf("10.96.0.%d", 40+i), "["+strings.Join(endpoints, ", ")+"]"))
		b.WriteString("scheduler = \"wrr\"\n")
	}
	return b.String()
}

// usable are the backends that new clients of a service reach.
func (w *walk) usable(service int) map[string]bool {
	names := map[string]bool{}
	for pod, weight := range w.files[service] {
		order := w.orders[endpointOf(service, pod)]
		if n, err := strconv.Atoi(order); err == nil && weight >= 0 {
			weight = n
		}
		if weight > 0 && order != "drain" && order != "disable" {
			names[fmt.Sprintf("pod%d", pod+1)] = true
		}
	}
	return names
}

// step does something, and returns what. What would leave a service without endpoints is not done.
func (w *walk) step(t *testing.T) string {
	service, pod := w.r.IntN(len(w.files)), w.r.IntN(3)
	target := endpointOf(service, pod)
	order, ordered := w.orders[target]
	switch n := w.r.IntN(20); {
	case n < 2:
		w.Kill()
		must(t, w.Start())
		w.applied(t, "kill")
		return "kill"
	case n < 3:
		must(t, w.Stop())
		must(t, w.Start())
		w.applied(t, "restart")
		return "restart"
	case n < 9:
		return w.rewrite(t, service, pod)
	case ordered:
		back := map[string]string{"drain": "undrain " + target, "disable": "enable " + target}[order]
		if back == "" {
			back = "weight " + target + " default"
		}
		delete(w.orders, target)
		if len(w.usable(service)) == 0 { // without its order the file gives it weight 0
			w.orders[target] = order
			return "nothing"
		}
		w.order(t, 0, back)
		return back
	case w.files[service][pod] < 0:
		return w.rewrite(t, service, pod)
	}
	what := []string{"drain", "disable", strconv.Itoa(1 + w.r.IntN(3))}[w.r.IntN(3)]
	command := what + " " + target
	if what != "drain" && what != "disable" {
		command = "weight " + target + " " + what
	}
	w.orders[target] = what
	if len(w.usable(service)) == 0 {
		delete(w.orders, target)
		w.order(t, 1, command, "the last usable endpoint")
		return "refused " + command
	}
	w.order(t, 0, command)
	return command
}

// rewrite gives an endpoint another weight in the file, takes it out, or puts it back.
func (w *walk) rewrite(t *testing.T, service, pod int) string {
	before := w.files[service][pod]
	w.files[service][pod] = w.r.IntN(4) - 1
	if len(w.usable(service)) == 0 {
		w.files[service][pod] = max(before, 1)
	}
	if len(w.usable(service)) == 0 { // an order stands
		w.files[service][pod] = before
	}
	must(t, w.Serve(w.text()))
	w.applied(t, "a changed file")
	return fmt.Sprintf("file %s weight %d", endpointOf(service, pod), w.files[service][pod])
}

// wantEndpoints asks until all endpoints have answered that new clients are to reach, and a few times more. The
// smallest weight is 1 of 7, so that a random choice misses one in 200 questions once in 10^13 times.
func (w *walk) wantEndpoints(t *testing.T) {
	for service := range w.files {
		want, found := w.usable(service), map[string]bool{}
		for asked, more := 0, 5; asked < 200 && more > 0; asked++ {
			a, err := w.Client.Ask("tcp", netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf("10.96.0.%d", 40+service)), 80))
			if err != nil {
				t.Errorf("s%d: %v", service, err)
				return
			}
			if found[a.Backend] = true; !want[a.Backend] {
				t.Errorf("s%d: %s answers, want %v", service, a.Backend, slices.Sorted(maps.Keys(want)))
				return
			}
			if len(found) == len(want) {
				more--
			}
		}
		if len(found) != len(want) {
			t.Errorf("s%d: %v answer, want %v", service, slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(want)))
		}
	}
}
