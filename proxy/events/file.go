package events

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/svcproxy/svcproxy/kernel/statefile"
)

// FileName is the name of a File in stateDir.
const FileName = "events.jsonl"

const (
	fileVersion = 1
	maxFile     = 1 << 20 // bytes
	leastFile   = maxFile / 2
)

// fileHead is the first line of the file. The others are events, oldest first.
type fileHead struct {
	Version int `json:"version"`
	// Series identifies numbers of events: see Ring.Series.
	Series string `json:"series"`
}

// File keeps the events of a Ring over a restart of the process: the newest, in at most maxFile bytes. Each event is
// added at once. A crash of the machine may lose the last ones.
type File struct {
	Path string
	Ring *Ring
	// Keeper repeats a write that failed; nil: the next event does.
	Keeper *statefile.Keeper

	seq  atomic.Uint64 // of the last event in the file
	size int           // bytes, or maxFile if the file has to be written as a whole; of put
}

// Restore gives the events of the file to the Ring, which must be empty. Without a file there are none. Lines
// that are not events are left out, as after a crash in the middle of one.
func (f *File) Restore() error {
	f.size = maxFile
	data, err := statefile.Read(f.Path, 2*maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.Ring.restore(nil, rand.Text())
		return fmt.Errorf("earlier events are not known: %w", err)
	}
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	var head fileHead
	if json.Unmarshal(first, &head) != nil || head.Version != fileVersion || head.Series == "" {
		f.Ring.restore(nil, rand.Text())
		if len(data) > 0 {
			return fmt.Errorf("earlier events are not known: %s is not a record of events, version %d", f.Path, fileVersion)
		}
		return nil
	}
	var list []Event
	for line := range bytes.Lines(rest) {
		var e Event
		if json.Unmarshal(line, &e) == nil && e.Kind.known() && e.Kind != Lost {
			list = append(list, e)
		}
	}
	f.Ring.restore(list, head.Series)
	f.seq.Store(f.Ring.Newest())
	return nil
}

// Run writes new events until ctx ends, and those that came by then.
func (f *File) Run(ctx context.Context) {
	for {
		list, _, more := f.Ring.After(f.seq.Load())
		f.write(list)
		select {
		case <-ctx.Done():
			list, _, _ = f.Ring.After(f.seq.Load())
			f.write(list)
			return
		case <-more:
		}
	}
}

// write adds events to the file. The Keeper says an error.
func (f *File) write(list []Event) {
	if len(list) == 0 {
		return
	}
	f.seq.Store(list[len(list)-1].Seq)
	data := encoded(list)
	_ = f.Keeper.Do(FileName, func() error { return f.put(data) })
}

// put adds lines to the file, or writes it as a whole if it would be too large.
func (f *File) put(data []byte) error {
	err := errors.New("to be written as a whole")
	if f.size+len(data) <= maxFile {
		err = statefile.Append(f.Path, data)
	}
	if err != nil {
		return f.rewrite()
	}
	f.size += len(data)
	return nil
}

// rewrite writes the newest events that fit in half of the file.
func (f *File) rewrite() error {
	head, err := json.Marshal(fileHead{fileVersion, f.Ring.Series()})
	if err != nil {
		return err
	}
	list, _, _ := f.Ring.After(0)
	f.seq.Store(list[len(list)-1].Seq) // write has seen one, so there is one
	data := encoded(list)
	for len(data) > leastFile {
		list = list[len(list)/8+1:]
		data = encoded(list)
	}
	data = append(append(head, '\n'), data...)
	if err := statefile.Put(f.Path, data, 0o600); err != nil {
		f.size = maxFile
		return fmt.Errorf("events are not kept over a restart: %w", err)
	}
	f.size = len(data)
	return nil
}

// encoded has a line for each event.
func encoded(list []Event) []byte {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	for _, e := range list {
		lines.Encode(e) // an Event always has JSON
	}
	return b.Bytes()
}
