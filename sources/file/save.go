package file

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
)

// accepted is good content, and when it was accepted.
type accepted struct {
	data []byte
	at   time.Time
}

// copies are what to keep on disk, by path; nil for a file that has left.
type copies map[string]*accepted

// backups are the copies that earlier runs kept, for files that are refused at the start. nil: they cannot be
// read, or the start is over.
type backups struct {
	store  LastGood
	copies int // their number
	log    *slog.Logger
}

func openBackups(dir string, log *slog.Logger) *backups {
	st := &backups{store: LastGood{Dir: dir}, log: log}
	var err error
	if st.copies, err = st.store.Len(); err != nil {
		log.Warn("the last good content of service files cannot be read: a file that is broken now has none",
			slog.Any("err", err))
		return nil
	}
	return st
}

// recall gives a file the copy of its content, if that is still valid. The present content is then judged like a later
// change. It returns false if the file may have been good and the copy is lost: the copy is damaged, or no file has
// one. If other files have copies and this one has none, it never was good.
func (st *backups) recall(path string, f *file) bool {
	if st == nil {
		return false
	}
	data, at, ok, err := st.store.Get(path)
	switch {
	case ok:
		v, _ := weigh(path, f.list, nil, Content{Data: data, Quotable: true}, at)
		if v.action == accept {
			f.served = v.next
			f.served.earlier = true
			return true
		}
		err = v.problems[0]
	case err == nil:
		return st.copies > 0
	}
	st.log.Warn("the last good content of a file is damaged or no longer valid",
		slog.String("file", path), slog.Any("err", err))
	return false
}

// others are the files that have a copy and are not known.
func (st *backups) others(known map[string]*file) []string {
	names, err := st.store.Names(slices.Collect(maps.Keys(known))...)
	if err != nil {
		st.log.Warn("the last good content of files that have left cannot be listed and stays", slog.Any("err", err))
	}
	return names
}

// saver writes copies to disk in the background, so that a slow disk does not delay a change.
type saver struct {
	store  LastGood
	keeper *statefile.Keeper
	wake   chan struct{}
	ended  chan struct{}

	mu    sync.Mutex
	due   copies            // not written yet
	wants map[string]string // the mount points of directories

	points map[string]string // as written
}

func newSaver(dir string, keeper *statefile.Keeper, log *slog.Logger) *saver {
	k := &saver{
		store: LastGood{Dir: dir}, keeper: keeper,
		wake: make(chan struct{}, 1), ended: make(chan struct{}), due: copies{},
	}
	var err error
	if k.points, err = k.store.MountPoints(); err != nil {
		log.Warn("where directories of service files were mounted cannot be read: if one is not mounted now, its services go",
			slog.Any("err", err))
	}
	k.wants = k.points
	go func() {
		defer close(k.ended)
		for range k.wake {
			_ = k.keeper.Do("last-good/services", k.write) // the Keeper says the error
		}
	}()
	return k
}

// save writes copies and mount points soon. The Keeper tries again those that have failed.
func (k *saver) save(news copies, points map[string]string) {
	k.mu.Lock()
	maps.Copy(k.due, news)
	k.wants = points
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default: // write is already due
	}
}

// close waits until all copies are written, or have failed.
func (k *saver) close() {
	close(k.wake)
	<-k.ended
}

// write tries all copies that are due, and returns the last failure: a full disk fails every file.
func (k *saver) write() error {
	k.mu.Lock()
	due, points := maps.Clone(k.due), k.wants
	k.mu.Unlock()
	var failed error
	for _, path := range slices.Sorted(maps.Keys(due)) {
		if err := k.put(path, due[path]); err != nil {
			failed = err
			continue
		}
		k.mu.Lock()
		if k.due[path] == due[path] {
			delete(k.due, path)
		}
		k.mu.Unlock()
	}
	if !maps.Equal(points, k.points) {
		if err := k.store.KeepMountPoints(points); err != nil {
			failed = err
		} else {
			k.points = points
		}
	}
	if failed != nil {
		return fmt.Errorf("cannot keep the last good content, so the next start may serve older content: %w", failed)
	}
	return nil
}

func (k *saver) put(path string, c *accepted) error {
	if c == nil {
		return k.store.Delete(path)
	}
	return k.store.Put(path, c.data, c.at)
}
