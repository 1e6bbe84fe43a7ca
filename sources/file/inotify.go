package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// event is a change of a name in a watched directory, or of the directory itself.
type event struct {
	path string
	what uint32 // syscall.IN_*
}

// watched are the events of a directory. IN_CLOSE_WRITE tells a complete file from a half-written one. Portable
// libraries, fsnotify among them, do not report it.
const watched = syscall.IN_CREATE | syscall.IN_MODIFY | syscall.IN_CLOSE_WRITE | syscall.IN_ATTRIB | syscall.IN_MOVED_FROM | syscall.IN_MOVED_TO |
	syscall.IN_DELETE | syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF | syscall.IN_ONLYDIR

// errOverflow says that the kernel had to drop events.
var errOverflow = errors.New("events were lost")

// watcher is an inotify instance.
type watcher struct {
	events chan event
	errs   chan error

	file *os.File
	done chan struct{}

	mu   sync.Mutex
	wds  map[string]int32 // by directory
	dirs map[int32]string
}

func newWatcher() (*watcher, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	w := &watcher{
		events: make(chan event, 256), errs: make(chan error, 1),
		file: os.NewFile(uintptr(fd), "inotify"), done: make(chan struct{}),
		wds: map[string]int32{}, dirs: map[int32]string{},
	}
	go w.run()
	return w, nil
}

func (w *watcher) close() {
	close(w.done)
	w.file.Close()
}

// add watches a directory, by a path without links. It changes nothing if the same directory is watched already.
func (w *watcher) add(dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.call(func(fd int) (int, error) { return syscall.InotifyAddWatch(fd, dir, watched) })
	if err != nil {
		return fmt.Errorf("inotify_add_watch: %w", err)
	}
	wd := int32(n)
	if before, known := w.wds[dir]; known && before != wd {
		w.forget(before)
	}
	if other, known := w.dirs[wd]; known && other != dir {
		delete(w.wds, other) // it was moved
	}
	w.wds[dir], w.dirs[wd] = wd, dir
	return nil
}

// keep ends the watches of all directories for which wanted returns false.
func (w *watcher) keep(wanted func(dir string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for dir, wd := range w.wds {
		if !wanted(dir) {
			delete(w.wds, dir)
			w.forget(wd)
		}
	}
}

// forget ends a watch. It can only fail if the directory is gone, which has ended the watch.
func (w *watcher) forget(wd int32) {
	delete(w.dirs, wd)
	_, _ = w.call(func(fd int) (int, error) { return syscall.InotifyRmWatch(fd, uint32(wd)) })
}

func (w *watcher) call(do func(fd int) (int, error)) (n int, err error) {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	if e := raw.Control(func(fd uintptr) { n, err = do(int(fd)) }); e != nil {
		return 0, e
	}
	return n, err
}

// run passes events on until the watcher is closed.
func (w *watcher) run() {
	buf := make([]byte, 64<<10)
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				w.fail(err)
			}
			return
		}
		for _, e := range w.parse(buf[:n]) {
			select {
			case w.events <- e:
			case <-w.done:
				return
			}
		}
	}
}

func (w *watcher) fail(err error) {
	select {
	case w.errs <- err:
	case <-w.done:
	}
}

// parse decodes events. A write causes the same event many times in a row: parse keeps one.
func (w *watcher) parse(buf []byte) []event {
	var events []event
	for len(buf) >= syscall.SizeofInotifyEvent {
		wd, what := int32(binary.NativeEndian.Uint32(buf)), binary.NativeEndian.Uint32(buf[4:])
		end := syscall.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[12:]))
		name := strings.TrimRight(string(buf[syscall.SizeofInotifyEvent:end]), "\x00")
		buf = buf[end:]
		if what&syscall.IN_Q_OVERFLOW != 0 {
			w.fail(errOverflow)
			continue
		}
		dir, known := w.dir(wd, what)
		if !known {
			continue
		}
		e := event{filepath.Join(dir, name), what}
		if !slices.Contains(events[max(0, len(events)-1):], e) {
			events = append(events, e)
		}
	}
	return events
}

// dir is the directory of a watch. IN_IGNORED ends the watch.
func (w *watcher) dir(wd int32, what uint32) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dir, known := w.dirs[wd]
	if known && what&syscall.IN_IGNORED != 0 {
		delete(w.dirs, wd)
		if w.wds[dir] == wd {
			delete(w.wds, dir)
		}
	}
	return dir, known
}
