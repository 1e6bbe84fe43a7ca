package proxy_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// While the kernel refuses one service of many, a change of another one costs what it costs otherwise, and no
// reading. The retries, each with a new reading, keep their pace however many changes there are.
func TestChangesWhileAServiceIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 300
		var refusing atomic.Bool
		refusing.Store(true)
		r := start(t, func(r *run) {
			r.kernel.Fail = func(o kernel.Op) error {
				v, ok := o.Object.(kernel.Virtual)
				if !ok || v.Key.Addr.As4()[3] != 1 || v.Key.Addr.As4()[2] != 0 || !refusing.Load() {
					return nil
				}
				return &kernel.MissingError{What: "no such scheduler"}
			}
		})
		defer r.end()
		now := wide(count)
		r.emit(now)
		pass(time.Minute)
		if r.last().Err == nil {
			t.Fatal("nothing was refused")
		}
		began, _ := r.kernel.Counts()
		r.kernel.Forget()
		change := func(i int) {
			now = sources.Table{Services: sources.ServicesOf(now.Services.Slice()...)}
			s := now.Services.At(count - 1)
			s.Endpoints = append([]sources.Endpoint(nil), s.Endpoints...)
			s.Endpoints[0].Weight = uint32(i + 2)
			_, before := r.kernel.Counts()
			r.emit(now)
			if w := r.weights(); w[len(w)-1] != uint32(i+2) {
				t.Fatalf("change %d: weight %d", i, w[len(w)-1])
			}
			// The refused service has an entry and a virtual server.
			if _, after := r.kernel.Counts(); after-before > 2 {
				t.Fatalf("change %d: %d writes", i, after-before)
			}
		}
		for i := range 90 {
			change(i)
			pass(time.Second)
		}
		reads, _ := r.kernel.Counts()
		if reads -= began; reads < 2 || reads > 4 || len(r.kernel.Shards()) > 0 {
			t.Errorf("%d readings and %d checks in 90 s, with as many changes", reads, len(r.kernel.Shards()))
		}
		refusing.Store(false)
		pass(31 * time.Second)
		if err := r.last().Err; err != nil || len(r.kernel.State().Virtuals) != count {
			t.Errorf("%d virtual servers, last sync: %v", len(r.kernel.State().Virtuals), err)
		}
	})
}

// An op that fails in a sync for a change is not among those that were refused before, so it may have failed because the
// reading is old.
func TestAnotherFailureReadsTheKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) {
			r.kernel.Fail = func(o kernel.Op) error {
				if v, ok := o.Object.(kernel.Virtual); ok && v.Key.Addr.As4()[3] <= 2 {
					return syscall.EINVAL
				}
				return nil
			}
		})
		defer r.end()
		three := wide(4)
		three.Services = sources.ServicesOf(slices.Delete(three.Services.Slice(), 1, 2)...) // without the second one
		r.emit(three)
		pass(2 * time.Minute)
		began, _ := r.kernel.Counts()
		r.emit(wide(4))
		if reads, _ := r.kernel.Counts(); reads != began {
			t.Errorf("%d readings for the change itself", reads-began)
		}
		r.emit(wide(3))
		if reads, _ := r.kernel.Counts(); reads != began+1 {
			t.Errorf("%d readings for the change after a new failure, want 1", reads-began)
		}
	})
}

// noMH is a kernel that refuses mh, as IPVS refuses it for very many real servers: a new virtual server then has rr.
type noMH struct{ *fake.Kernel }

func (k noMH) Apply(ctx context.Context, p kernel.Plan) error {
	refused := &kernel.ApplyError{}
	ops := slices.Clone(p.Ops)
	for i, o := range p.Ops {
		v, ok := o.Object.(kernel.Virtual)
		if !ok || o.Verb == kernel.Remove || v.Scheduler != "mh" {
			continue
		}
		v.Scheduler = "rr"
		ops[i].Object = v
		refused.Failed = append(refused.Failed, &kernel.OpError{Index: i, Op: o, Err: syscall.EINVAL})
	}
	p.Ops = ops
	if err := k.Kernel.Apply(ctx, p); err != nil || len(refused.Failed) == 0 {
		return err
	}
	return refused
}

// An op that failed may have changed something, once. A change right after it is planned from a new reading.
func TestAFailedOpMayHaveChangedTheKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) {
			r.options.Kernel = noMH{r.kernel}
			r.options.Rules = func(t sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
				f, s := rules(t, n, occupied)
				s.Virtuals[0].Scheduler = "mh"
				return f, s
			}
		})
		defer r.end()
		for i := range 5 {
			r.emit(wide(3 + i))
		}
		pass(time.Minute)
		for _, report := range r.all() {
			if !errors.Is(report.Err, syscall.EINVAL) || errors.Is(report.Err, syscall.EEXIST) {
				t.Errorf("a sync (%s): %v", report.Causes.First(), report.Err)
			}
		}
		if n := len(r.kernel.State().Virtuals); n != 7 {
			t.Errorf("%d virtual servers", n)
		}
	})
}
