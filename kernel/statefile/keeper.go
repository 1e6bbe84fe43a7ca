package statefile

import (
	"context"
	"sync"
	"time"
)

// retryPeriod is the time between two tries of a write that failed.
const retryPeriod = 10 * time.Second

// Keeper repeats writes that failed until they succeed: a disk that was full or read-only may be so no longer. Its
// methods may be called from any goroutine, and on a nil Keeper, which repeats nothing.
type Keeper struct {
	// Said is called after each try that failed, and with nil after the first that succeeds again.
	Said func(file string, err error)

	mu    sync.Mutex
	files map[string]*keptFile
}

type keptFile struct {
	mu    sync.Mutex   // while it is written
	again func() error // what failed; nil if nothing did
}

// Do calls write. If that fails, it is called again every 10 s, from another goroutine, until it succeeds or
// Do is called for the same file. Calls for one file do not overlap.
func (k *Keeper) Do(file string, write func() error) error {
	if k == nil {
		return write()
	}
	k.mu.Lock()
	f := k.files[file]
	if f == nil {
		if k.files == nil {
			k.files = map[string]*keptFile{}
		}
		f = &keptFile{}
		k.files[file] = f
	}
	k.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	return k.try(file, f, write)
}

// try writes, and notes whether that is to be repeated. The file is locked.
func (k *Keeper) try(file string, f *keptFile, write func() error) error {
	failed := f.again != nil
	f.again = nil
	err := write()
	if err != nil {
		f.again = write
	}
	if err != nil || failed {
		k.Said(file, err)
	}
	return err
}

// Run repeats what failed until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(retryPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.repeat()
		}
	}
}

// repeat tries each file that failed in a goroutine of its own, as a disk may hang. One that is being written
// is left out.
func (k *Keeper) repeat() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, f := range k.files {
		if !f.mu.TryLock() {
			continue
		}
		if f.again == nil {
			f.mu.Unlock()
			continue
		}
		go func() {
			defer f.mu.Unlock()
			_ = k.try(name, f, f.again) // Said has the error
		}()
	}
}
