package proxy_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

func TestNothingIsRemovedBeforeEverySourceHasDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(script)
		r := start(t, func(r *run) {
			_, served := rules(sources.Merged{Table: table(2)}, kernel.Node{}, nil)
			r.kernel = fake.New(names, kernel.Node{}, served)
			r.options.Kernel = r.kernel
			r.options.Feeds = append(r.options.Feeds, proxy.Feed{Name: "apiserver", Source: late})
		})
		defer r.end()
		r.emit(sources.Table{})
		pass(time.Minute)
		if got := r.weights(); !slices.Equal(got, []uint32{1, 1}) {
			t.Fatalf("weights %v while a source has not delivered", got)
		}
		if w := r.last().Waiting; !slices.Equal(w, []string{"apiserver"}) {
			t.Errorf("waiting for %v", w)
		}
		late <- emission{table: sources.Table{}}
		synctest.Wait()
		pass(time.Millisecond)
		if got := r.weights(); len(got) != 0 {
			t.Errorf("weights %v after both have delivered an empty table", got)
		}
	})
}

func TestFailedSourceKeepsItsTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(table(2))
		r.source <- emission{err: errors.New("disk gone")}
		pass(time.Minute)
		if got := r.weights(); !slices.Equal(got, []uint32{1, 1}) {
			t.Errorf("weights %v", got)
		}
		if s := r.proxy.Sources()[0]; s.Err == nil {
			t.Error("the source's error cannot be seen")
		}
	})
}

func TestAdoptsWithoutAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) {
			_, served := rules(sources.Merged{Table: table(3)}, kernel.Node{}, nil)
			r.kernel = fake.New(names, kernel.Node{}, served)
			r.options.Kernel = r.kernel
		})
		defer r.end()
		r.emit(table(3))
		if _, writes := r.kernel.Counts(); writes != 0 {
			t.Errorf("%d writes to a kernel that was as wanted", writes)
		}
	})
}

type refused struct{}

func TestRefusedAtFirstStartWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) { r.options.Feeds = append(r.options.Feeds, proxy.Feed{Name: "file", Source: refused{}}) })
		err := <-r.done
		var rejected *sources.RejectedError
		if !errors.As(err, &rejected) {
			t.Errorf("Run: %v, want the rejection", err)
		}
		if reads, writes := r.kernel.Counts(); reads+writes != 0 {
			t.Errorf("the kernel was touched: %d readings, %d writes", reads, writes)
		}
		r.stop()
	})
}

// nothingGood is the error of a source whose files are all invalid.
var nothingGood = &sources.RejectedError{Nothing: true, Incomplete: true, Problems: []sources.Problem{{Message: "broken"}}}

func TestNothingEverGoodEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.source <- emission{err: nothingGood}
		err := <-r.done
		var rejected *sources.RejectedError
		if !errors.As(err, &rejected) {
			t.Errorf("Run: %v, want the rejection", err)
		}
		if _, writes := r.kernel.Counts(); writes != 0 {
			t.Errorf("%d writes", writes)
		}
		r.stop()
	})
}

func TestNothingGoodKeepsWhatTheKernelServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) {
			_, served := rules(sources.Merged{Table: table(2)}, kernel.Node{}, nil)
			r.kernel = fake.New(names, kernel.Node{}, served)
			r.options.Kernel = r.kernel
		})
		defer r.end()
		r.source <- emission{err: nothingGood}
		pass(time.Minute)
		if got := r.weights(); !slices.Equal(got, []uint32{1, 1}) {
			t.Errorf("weights %v", got)
		}
		r.emit(table(1))
		if got := r.weights(); !slices.Equal(got, []uint32{1}) {
			t.Errorf("weights %v after the file was mended", got)
		}
	})
}

// If the kernel had no object of ours at the start, an incomplete source does not hold
// back removals of what another source had added.
func TestKernelWithoutOwnObjectsHoldsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		incomplete := &sources.RejectedError{Incomplete: true, Problems: []sources.Problem{{Message: "broken"}}}
		for _, n := range []int{2, 1} {
			r.source <- emission{table(n), incomplete}
			pass(10 * time.Second)
			if got := r.weights(); len(got) != n {
				t.Errorf("weights %v, want %d", got, n)
			}
		}
	})
}

// duringRead is a kernel that calls do during its first reading.
type duringRead struct {
	*fake.Kernel
	do func()
}

func (k *duringRead) Read(ctx context.Context) (kernel.Observed, error) {
	if k.do != nil {
		k.do()
		k.do = nil
	}
	return k.Kernel.Read(ctx)
}

// The first sync then has an empty table and names the source it did not wait for, so
// READY comes with the next sync.
func TestSourceThatDeliversWhileTheKernelIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) {
			r.options.Kernel = &duringRead{r.kernel, func() {
				r.source <- emission{table: table(2)}
				pass(time.Second)
			}}
		})
		defer r.end()
		pass(10 * time.Second)
		all := r.all()
		if len(all) < 2 || !slices.Equal(all[0].Waiting, []string{"file"}) || len(all[1].Waiting) > 0 {
			t.Fatalf("%d syncs, the first waiting for %v", len(all), all[0].Waiting)
		}
		if got := r.weights(); len(got) != 2 {
			t.Errorf("weights %v", got)
		}
	})
}
