// Package incumbents keeps on disk which services are served, so that at the next start they keep from
// newcomers what they had.
//
// The record is one file in the state directory. It names services and, where several want the same, who
// has it: an endpoint that comes or goes does not change it. A record that is missing or damaged is none;
// then the order of files and sources decides, as at the first start.
package incumbents

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
	file = "incumbents"
	// maxSize bounds the record: some 300,000 services. A larger one is not written and not read.
	maxSize = 16 << 20
	// pause is the shortest time between two writes. In a large cluster services come and go all day.
	pause = 10 * time.Second
)

// Read gives what the last run kept in a state directory; nothing if it kept nothing.
func Read(stateDir string) (sources.Incumbents, error) {
	path := filepath.Join(stateDir, file)
	data, err := statefile.Read(path, maxSize)
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

// Keeper writes the record in its own time. Its methods may be called from any goroutine.
type Keeper struct {
	path  string
	log   *slog.Logger
	wake  chan struct{}
	end   chan struct{}
	ended chan struct{}

	mu  sync.Mutex
	due *sources.Incumbents // nil: what is known is written

	written string
	failed  bool
}

// New makes a Keeper for a state directory.
func New(stateDir string, log *slog.Logger) *Keeper {
	k := &Keeper{
		path: filepath.Join(stateDir, file), log: log,
		wake: make(chan struct{}, 1), end: make(chan struct{}), ended: make(chan struct{}),
	}
	go k.run()
	return k
}

// Keep has the record say this, soon. It does not wait for the disk.
func (k *Keeper) Keep(in sources.Incumbents) {
	k.mu.Lock()
	k.due = &in
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Close waits until what is due is written, or could not be. Keep is not to be called after it.
func (k *Keeper) Close() {
	close(k.end)
	<-k.ended
}

func (k *Keeper) run() {
	defer close(k.ended)
	defer k.write()
	for {
		select {
		case <-k.end:
			return
		case <-k.wake:
			k.write()
		}
		select {
		case <-k.end:
			return
		case <-time.After(pause):
		}
	}
}

// write writes what is due. It logs a failure once, and tries again with the next change.
func (k *Keeper) write() {
	k.mu.Lock()
	due := k.due
	k.due = nil
	k.mu.Unlock()
	if due == nil {
		return
	}
	text := due.String()
	if text == k.written {
		return
	}
	err := fmt.Errorf("%d bytes are too many: at most %d are kept", len(text), maxSize)
	if len(text) <= maxSize {
		err = statefile.Write(k.path, []byte(text), 0o600)
	}
	if err == nil {
		k.written, k.failed = text, false
		return
	}
	if !k.failed {
		k.log.Warn("after a restart a new service may take what another has now: which are served cannot be kept", "file", k.path, "err", err)
	}
	k.failed = true
}
