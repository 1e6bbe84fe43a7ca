package nftables

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/nft"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/lab"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// BenchmarkEndpoint takes one of five endpoints of one of 5,000 services out and puts it in again, from a changed table
// to the kernel's commit. Where no other service has four endpoints, a chain comes and goes, too, and the kernel walks
// the whole map of endpoints for its rule.
func BenchmarkEndpoint(b *testing.B) {
	kerneltest.Need(b, kerneltest.Root)
	l, err := lab.New()
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, c := range []struct {
		name string
		gone int
		new  bool // chain
	}{{"first", 0, false}, {"last", 4, false}, {"new chain", 4, true}} {
		b.Run(c.name, func(b *testing.B) {
			if err := l.Node.Do(func() error { return benchEndpoint(b, c.gone, c.new) }); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func benchEndpoint(b *testing.B, gone int, newChain bool) (err error) {
	all := modetest.Big(5000, 5)
	if !newChain {
		all.Services.At(8).Endpoints = all.Services.At(8).Endpoints[:4]
	}
	other := sources.Table{Services: sources.ServicesOf(all.Services.Slice()...)}
	s := other.Services.At(7)
	s.Endpoints = append(s.Endpoints[:gone:gone], s.Endpoints[gone+1:]...)
	fewer := sources.Merged{Table: other, Delta: sources.Compare(all, other)}
	more := sources.Merged{Table: all, Delta: sources.Compare(other, all)}
	config, node := modetest.Defaults(), kernel.Node{Name: "n1"}
	table, err := nft.Open(nil, config.Names)
	if err != nil {
		return err
	}
	defer table.Close()
	defer func() { err = errors.Join(err, table.Remove(kernel.IPv4), table.Remove(kernel.IPv6)) }()
	var frontends frontend.Cache
	var m Mode
	have, memory := kernel.Observed{Names: config.Names, Fresh: true, Native: true}, kernel.Memory{}
	var took [4]time.Duration
	ops, began := 0, time.Time{}
	lap := func(i int) {
		now := time.Now()
		took[i] += now.Sub(began)
		began = now
	}
	sync := func(t sources.Merged) error {
		began = time.Now()
		want := m.State(frontends.List(t, node, config.Frontends), config)
		want = kernel.State{Sets: want.Sets, Entries: want.Entries, Chains: want.Chains, Policy: want.Policy}
		lap(0)
		todo, then := plan.Diff(want, have, memory, kernel.Now{Time: time.Now()})
		lap(1)
		ops += len(todo.Ops)
		if err := errors.Join(table.Apply(todo.Ops)...); err != nil {
			return err
		}
		lap(2)
		memory = then
		have, _ = plan.Applied(have, want, todo)
		lap(3)
		return nil
	}
	if err := sync(sources.Merged{Table: all, Delta: sources.Compare(sources.Table{}, all)}); err != nil {
		return err
	}
	ops, took = 0, [4]time.Duration{}
	b.ReportAllocs()
	for b.Loop() {
		if err := errors.Join(sync(fewer), sync(more)); err != nil {
			return err
		}
	}
	b.ReportMetric(float64(ops)/float64(b.N), "ops")
	for i, what := range []string{"state-us", "diff-us", "kernel-us", "applied-us"} {
		b.ReportMetric(float64(took[i].Microseconds())/float64(b.N), what)
	}
	return nil
}
