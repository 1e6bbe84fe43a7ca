package file

import (
	"errors"
	"fmt"
	"io/fs"
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
	// recordPause is the shortest time between two writes. In a large cluster services come and go all day.
	recordPause = 10 * time.Second
)

// Incumbents reads the record of a state directory. A record that is missing is empty. One that is damaged
// is empty, too, and an error: then the order of sources and files decides, as at the first start.
func ReadIncumbents(stateDir string) (sources.Incumbents, error) {
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

// IncumbentsRecorder writes the record of incumbents in the background. Its methods may be called from any goroutine.
type IncumbentsRecorder struct {
	path   string
	keeper *statefile.Keeper
	wake   chan struct{}
	end    chan struct{}
	ended  chan struct{}

	mu  sync.Mutex
	due *sources.Incumbents // nil: the record is up to date

	written string // of write
}

// NewIncumbentsRecorder starts a IncumbentsRecorder for a state directory. The Keeper repeats writes that failed.
func NewIncumbentsRecorder(stateDir string, keeper *statefile.Keeper) *IncumbentsRecorder {
	r := &IncumbentsRecorder{
		path: filepath.Join(stateDir, incumbentsFile), keeper: keeper,
		wake: make(chan struct{}, 1), end: make(chan struct{}), ended: make(chan struct{}),
	}
	go r.run()
	return r
}

// Record replaces the record soon. It does not wait for the disk.
func (r *IncumbentsRecorder) Record(in sources.Incumbents) {
	r.mu.Lock()
	r.due = &in
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // run is already due to write
	}
}

// Close waits until the last record is written, or has failed once more. Do not call Record after it.
func (r *IncumbentsRecorder) Close() {
	close(r.end)
	<-r.ended
}

func (r *IncumbentsRecorder) run() {
	defer close(r.ended)
	defer r.keep()
	for {
		select {
		case <-r.end:
			return
		case <-r.wake:
		}
		r.keep()
		select {
		case <-r.end:
			return
		case <-time.After(recordPause):
		}
	}
}

func (r *IncumbentsRecorder) keep() { _ = r.keeper.Do(incumbentsFile, r.write) } // the Keeper says the error

// write writes the record if it changed.
func (r *IncumbentsRecorder) write() error {
	r.mu.Lock()
	due := r.due
	r.mu.Unlock()
	if due == nil {
		return nil
	}
	text := due.String()
	if len(text) > maxIncumbents {
		return fmt.Errorf("the record of served services has %d bytes: at most %d are kept", len(text), maxIncumbents)
	}
	if text != r.written {
		if err := statefile.Write(r.path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("after a restart a new service may take the address of another: %w", err)
		}
		r.written = text
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due == due { // else there is a newer one
		r.due = nil
	}
	return nil
}
