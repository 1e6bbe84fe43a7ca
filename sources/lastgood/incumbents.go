package lastgood

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/sources"
)

const (
	incumbentsFile = "incumbents"
	// maxIncumbents bounds the record, in bytes: some 300,000 services. A larger record is neither written
	// nor read.
	maxIncumbents = 16 << 20
	// pause is the shortest time between two writes. In a large cluster services come and go all day.
	pause = 10 * time.Second
)

// Incumbents reads the record of a state directory. A record that is missing is empty. One that is damaged
// is empty, too, and an error: then the order of sources and files decides, as at the first start.
func Incumbents(stateDir string) (sources.Incumbents, error) {
	path := filepath.Join(stateDir, incumbentsFile)
	data, err := statefile.Read(path, maxIncumbents)
	if errors.Is(err, fs.ErrNotExist) {
		return sources.Incumbents{}, nil
	}
	if err != nil {
		return sources.Incumbents{}, fmt.Errorf("reading which services were served: %w", err)
	}
	in, err := sources.ParseIncumbents(string(data))
	if err != nil {
		return sources.Incumbents{}, fmt.Errorf("reading which services were served: %s: %w", path, err)
	}
	return in, nil
}

// Recorder writes the record of incumbents in the background. Its methods may be called from any goroutine.
type Recorder struct {
	path  string
	log   *slog.Logger
	wake  chan struct{}
	end   chan struct{}
	ended chan struct{}

	mu  sync.Mutex
	due *sources.Incumbents // nil: the record is up to date

	written string
	failed  bool // the last write
}

// NewRecorder starts a Recorder for a state directory.
func NewRecorder(stateDir string, log *slog.Logger) *Recorder {
	r := &Recorder{
		path: filepath.Join(stateDir, incumbentsFile), log: log,
		wake: make(chan struct{}, 1), end: make(chan struct{}), ended: make(chan struct{}),
	}
	go r.run()
	return r
}

// Record replaces the record soon. It does not wait for the disk.
func (r *Recorder) Record(in sources.Incumbents) {
	r.mu.Lock()
	r.due = &in
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // run is already due to write
	}
}

// Close waits until the last record is written, or has failed once more. Do not call Record after it.
func (r *Recorder) Close() {
	close(r.end)
	<-r.ended
}

func (r *Recorder) run() {
	defer close(r.ended)
	defer r.write()
	for {
		select {
		case <-r.end:
			return
		case <-r.wake:
		}
		for again := true; again; {
			again = !r.write()
			select {
			case <-r.end:
				return
			case <-time.After(pause):
			}
		}
	}
}

// write writes the record if it changed. It returns false if that failed and is to be tried again. It logs the first
// failure, and the end of failures.
func (r *Recorder) write() bool {
	r.mu.Lock()
	due := r.due
	r.due = nil
	r.mu.Unlock()
	if due == nil {
		return true
	}
	text := due.String()
	if text == r.written {
		return true
	}
	small := len(text) <= maxIncumbents
	err := fmt.Errorf("%d bytes are too many: at most %d are kept", len(text), maxIncumbents)
	if small {
		err = statefile.Write(r.path, []byte(text), 0o600)
	}
	if err == nil {
		if r.failed {
			r.log.Info("the record of served services is written again", "file", r.path)
		}
		r.written, r.failed = text, false
		return true
	}
	if !r.failed {
		r.log.Warn("the record of served services cannot be written: after a restart a new service may take the address of another", "file", r.path, "err", err)
	}
	r.failed = true
	if small {
		r.mu.Lock()
		if r.due == nil { // else there is a newer one
			r.due = due
		}
		r.mu.Unlock()
	}
	return !small
}
