package apiserver_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	mobyipvs "github.com/moby/ipvs"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/sources"
	source "github.com/svcproxy/svcproxy/sources/apiserver"
	"github.com/svcproxy/svcproxy/testdata/apiserver"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// sizes are the tables that latency is measured with, and writes how often.
var sizes = []int{10, 1000, 5000}

const writes = 25

// A spread is what many measurements of one thing gave.
type spread struct{ least, median, most time.Duration }

func spreadOf(took []time.Duration) spread {
	slices.Sort(took)
	return spread{took[0], took[len(took)/2], took[len(took)-1]}
}

func (s spread) String() string {
	const digit = time.Millisecond / 10
	return fmt.Sprintf("%v (%v to %v)", s.median.Round(digit), s.least.Round(digit), s.most.Round(digit))
}

// From the API server's word that it has a slice to the real server in the kernel. What grows with the
// table is a walk over it, a microsecond or two for each service; what is done to the kernel does not.
func TestLatency(t *testing.T) {
	if v := visiting(t); v != nil {
		v.measure(t)
		return
	}
	c := newCluster(t)
	least := make([]time.Duration, len(sizes)) // the machine may be busy in one of the measurements
	have := 0
	for i, size := range sizes {
		fill(t, c, have, size)
		have = size
		least[i] = measure(t, c, size)
		runInGuest(t, c, size)
	}
	if last := len(sizes) - 1; least[last] > least[0]+100*time.Millisecond {
		t.Errorf("it grows with the table: %v for %v services", least, sizes)
	}
}

// measure measures all of the program but the kernel, and returns the least time.
func measure(t *testing.T, c *apiserver.Cluster, size int) time.Duration {
	t.Helper()
	s, err := source.New(source.Options{Kubeconfig: kubeconfig(t, c, c.URL), ContentType: protobuf, NodeName: "n1", QPS: -1})
	must(t, err)
	served := &arrivals{at: map[netip.Addr]time.Time{}}
	k := fake.New(kernel.DefaultNames, nodeN1(t), kernel.State{})
	k.After = served.note
	var frontends frontend.Cache
	var m ipvs.Mode
	p := proxy.New(proxy.Options{
		Kernel: k, Log: slog.New(slog.DiscardHandler), Feeds: []proxy.Feed{{Name: "apiserver", Source: s}}, SyncPeriod: time.Hour,
		Rules: func(t sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
			now := config
			now.Hold, now.Occupied = t.Keeps, occupied
			f := frontends.List(t, n, now.Frontends)
			return f, m.State(f, now)
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	defer func() { stop(); <-done }()

	served.await(t, fillerAddr(size-1))
	var took []time.Duration
	for w := range writes {
		addr := fmt.Sprintf("10.4.0.%d", w+1)
		must(t, c.Admin.Update(fillerSlice(w%size, addr)))
		acknowledged := time.Now()
		// The watch may be faster than the answer.
		took = append(took, max(0, served.await(t, addr).Sub(acknowledged)))
	}
	for i := range min(size, writes) { // as it was, for the guest
		must(t, c.Admin.Update(fillerSlice(i, fillerAddr(i))))
	}
	spread := spreadOf(took)
	t.Logf("%d services: from acknowledged to programmed %v", size, spread)
	return spread.least
}

// measure measures the real program with a real kernel, in an emulated machine where everything
// takes many times as long.
func (v *visit) measure(t *testing.T) {
	t.Helper()
	n := v.newNode(t)
	var reader *mobyipvs.Handle
	must(t, n.Lab.Node.Do(func() (err error) { reader, err = mobyipvs.New(""); return err }))
	defer reader.Close()
	n.fromAPI(t, v, "")
	_, err := n.Wait(0, fmt.Sprintf("msg=synced .* services=%d ", v.Services+1)) // and the API server's own
	must(t, err)
	last := v.Services - 1
	if got, want := realOf(reader, last), fillerAddr(last); got != want {
		t.Fatalf("service %d has %q, want %s", last, got, want)
	}
	var took, apply []time.Duration
	for w := range writes {
		mark := n.Log.Len()
		took = append(took, v.latency(t, reader, w%v.Services, fmt.Sprintf("10.5.0.%d", w+1)))
		apply = append(apply, n.applied(t, mark))
	}
	spread, inKernel := spreadOf(took), spreadOf(apply)
	t.Logf("%d services: from acknowledged to served %v, of which in the kernel %v", v.Services, spread, inKernel)
	if inKernel.least > 50*time.Millisecond {
		t.Errorf("one endpoint of %d services keeps the kernel busy for %v", v.Services, inKernel)
	}
}

// arrivals is when real servers were added.
type arrivals struct {
	mu sync.Mutex
	at map[netip.Addr]time.Time
}

func (a *arrivals) note(op kernel.Op) {
	if r, ok := op.Object.(kernel.Real); ok && op.Verb == kernel.Add {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.at[r.Key.Addr.Addr()] = time.Now()
	}
}

// await waits for a real server and returns when it came.
func (a *arrivals) await(t *testing.T, addr string) (came time.Time) {
	t.Helper()
	want := netip.MustParseAddr(addr)
	must(t, lab.Eventually(patience, func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		var ok bool
		if came, ok = a.at[want]; !ok {
			return fmt.Errorf("%s has yet to come", addr)
		}
		return nil
	}))
	return came
}

// latency moves a service to another endpoint and returns how long after the answer that is in the kernel.
func (v *visit) latency(t *testing.T, reader *mobyipvs.Handle, i int, addr string) time.Duration {
	t.Helper()
	must(t, v.admin.Update(fillerSlice(i, addr)))
	acknowledged := time.Now()
	must(t, lab.Eventually(time.Minute, func() error {
		if got := realOf(reader, i); got != addr {
			return fmt.Errorf("service %d has %q, want %s", i, got, addr)
		}
		return nil
	}))
	return time.Since(acknowledged)
}

// realOf is the address of the real server of a service, and "" if there is none.
func realOf(reader *mobyipvs.Handle, i int) string {
	vip := fillerService(i)["spec"].(object)["clusterIP"].(string)
	found, err := reader.GetDestinations(&mobyipvs.Service{
		AddressFamily: syscall.AF_INET, Protocol: syscall.IPPROTO_TCP, Address: net.ParseIP(vip).To4(), Port: 80, Netmask: 0xffffffff,
	})
	if err != nil {
		return ""
	}
	for _, d := range found {
		if d.Weight > 0 {
			return d.Address.String()
		}
	}
	return ""
}

// applied waits for the sync of one endpoint's change, wants it to be just that, and returns how long
// the kernel was busy with it.
func (n node) applied(t *testing.T, mark int) time.Duration {
	t.Helper()
	line, err := n.Wait(mark, lab.Synced)
	must(t, err)
	// The real server, and its entry in KUBE-LOOP-BACK: it may be this node's.
	if !strings.Contains(line, " add=2 change=0 remove=2 ") {
		t.Errorf("a sync of one endpoint: %s", line)
	}
	_, rest, _ := strings.Cut(line, " apply=")
	text, _, _ := strings.Cut(rest, " ")
	d, err := time.ParseDuration(text)
	must(t, err)
	return d
}
