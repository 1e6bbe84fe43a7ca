package proxy_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy"
)

var errNoTool = errors.New("iptables-save: no such file or directory")

// unreadable is a kernel that cannot be read while broken.
type unreadable struct {
	proxy.Kernel
	broken atomic.Bool
}

func (k *unreadable) Read(ctx context.Context) (kernel.Observed, error) {
	if k.broken.Load() {
		return kernel.Observed{}, errNoTool
	}
	return k.Kernel.Read(ctx)
}

func (k *unreadable) Verify(ctx context.Context, known *kernel.Observed, shard plan.Shard) (bool, error) {
	if k.broken.Load() {
		return false, errNoTool
	}
	return k.Kernel.Verify(ctx, known, shard)
}

// While the kernel cannot be read, endpoints go down and come back all the same, and the sync is no success. When it can be
// read again, all is as wanted.
func TestHealthWhileTheKernelCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o takesOut
		var k unreadable
		r := start(t, func(r *run) {
			r.options.Health = &o
			k.Kernel, r.options.Kernel = r.options.Kernel, &k
		})
		defer r.end()
		r.emit(table(2))
		k.broken.Store(true)
		pass(time.Hour)
		for _, out := range []bool{true, false, true} {
			o.out.Store(out)
			r.proxy.Replan()
			pass(time.Minute)
			want := []uint32{1, 1}
			if out {
				want[0] = 0
			}
			if got := r.weights(); !slices.Equal(got, want) {
				t.Errorf("out %t: weights %v, want %v", out, got, want)
			}
			if err := r.last().Err; !errors.Is(err, errNoTool) || r.last().Read {
				t.Errorf("out %t: the sync's error is %v", out, err)
			}
		}
		r.emit(table(3))
		pass(time.Minute)
		if got := r.weights(); !slices.Equal(got, []uint32{0, 1}) {
			t.Errorf("a new endpoint waits until the kernel can be read: weights %v", got)
		}
		r.emit(table(1))
		pass(time.Minute)
		if got := r.weights(); !slices.Equal(got, []uint32{0, 0}) {
			t.Errorf("an endpoint that is gone gets no connection: weights %v", got)
		}
		k.broken.Store(false)
		o.out.Store(false)
		r.emit(table(3))
		pass(time.Minute)
		if got := r.weights(); !slices.Equal(got, []uint32{1, 1, 1}) || r.last().Err != nil || !r.last().Read {
			t.Errorf("when it can be read again: weights %v, %v", got, r.last().Err)
		}
	})
}
