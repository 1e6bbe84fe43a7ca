package file

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/lastgood"
)

// accepted is content that was good, and when.
type accepted struct {
	data []byte
	at   time.Time
}

// copies are what is to be kept on disk, by path; nil is a file that has left.
type copies map[string]*accepted

// stored is what earlier runs kept, for files that are refused when we start; nil when it cannot be read,
// or the start is over.
type stored struct {
	store  lastgood.Store
	copies int // how many there are
	log    *slog.Logger
}

func open(dir string, log *slog.Logger) *stored {
	st := &stored{store: lastgood.Store{Dir: dir}, log: log}
	var err error
	if st.copies, err = st.store.Len(); err != nil {
		log.Warn("no last good content of service files, should one be broken now", slog.Any("err", err))
		return nil
	}
	return st
}

// recall begins a record with what was kept of its file, if that is still good. What the file holds now
// is then judged as any later change would be. It is false where the file may have been good and the record
// of that is lost: a damaged copy, or no copy of any file at all. Where others have one and this file has
// none, it never was.
func (st *stored) recall(path string, r *record) bool {
	if st == nil {
		return false
	}
	data, at, ok, err := st.store.Get(path)
	var problems []sources.Problem
	switch {
	case ok:
		now, wrong := after(r.reading, path, data)
		if r.warnings, problems = r.judge(now, wrong); len(problems) == 0 {
			r.good, r.earlier, r.since = true, true, at
			return true
		}
		*r = record{named: r.named}
		err = problems[0]
	case err == nil:
		return st.copies > 0
	}
	st.log.Warn("what was kept as a file's last good content is not good any more", slog.String("file", path), slog.Any("err", err))
	return false
}

// others are the files of which something is kept and that are not among some.
func (st *stored) others(known map[string]*record) []string {
	names, err := st.store.Names(slices.Collect(maps.Keys(known))...)
	if err != nil {
		st.log.Warn("what was kept of files that have left stays", slog.Any("err", err))
	}
	return names
}

// keeper puts copies on the disk in its own time, which the disk decides: what is served does not wait.
type keeper struct {
	store lastgood.Store
	log   *slog.Logger
	wake  chan struct{}
	ended chan struct{}

	mu  sync.Mutex
	due copies // the last word on each path

	told string // the failure that was logged
}

func newKeeper(dir string, log *slog.Logger) *keeper {
	k := &keeper{
		store: lastgood.Store{Dir: dir}, log: log,
		wake: make(chan struct{}, 1), ended: make(chan struct{}), due: copies{},
	}
	go func() {
		defer close(k.ended)
		for range k.wake {
			k.write()
		}
	}()
	return k
}

// keep has copies written, and those again that could not be so far.
func (k *keeper) keep(news copies) {
	k.mu.Lock()
	maps.Copy(k.due, news)
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default: // it will see them
	}
}

// close waits until what is due was written, or could not be.
func (k *keeper) close() {
	close(k.wake)
	<-k.ended
}

// write tries all that is due, and logs why it cannot when that is news: a full disk says the same of each
// file and each time.
func (k *keeper) write() {
	k.mu.Lock()
	due := maps.Clone(k.due)
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
	switch why := reason(failed); {
	case why == k.told:
	case failed != nil:
		k.log.Warn("the last good content of service files cannot be kept: should one be broken at the next start, it has none",
			slog.Any("err", failed))
		k.told = why
	default:
		k.log.Info("the last good content of service files is kept again", slog.String("dir", k.store.Dir))
		k.told = ""
	}
}

func (k *keeper) put(path string, c *accepted) error {
	if c == nil {
		return k.store.Delete(path)
	}
	return k.store.Put(path, c.data, c.at)
}

// reason is what a failure has in common for all files.
func reason(err error) string {
	var number syscall.Errno
	var pe *fs.PathError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &number):
		return number.Error()
	case errors.As(err, &pe):
		return pe.Err.Error()
	}
	return err.Error()
}
