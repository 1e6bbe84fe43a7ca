package daemon

import (
	"context"
	"io"
	"log/slog"
	"sync"

	"github.com/svcproxy/svcproxy/proxy/cli"
)

// journal is a handler whose lines begin with their priority, so that `journalctl -p warning` finds warnings.
type journal struct {
	slog.Handler            // writes to lines
	lines        *journaled // shared with the handlers that With makes
}

// newJournal returns a handler for w. make makes the handler of the lines themselves.
func newJournal(w io.Writer, make func(io.Writer, func([]string, slog.Attr) slog.Attr) slog.Handler) slog.Handler {
	lines := &journaled{to: w}
	return &journal{make(lines, withoutTime), lines}
}

func (j *journal) Handle(ctx context.Context, r slog.Record) error {
	j.lines.mu.Lock()
	defer j.lines.mu.Unlock()
	j.lines.priority = priority(r.Level)
	return j.Handler.Handle(ctx, r)
}

func (j *journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journal{j.Handler.WithAttrs(attrs), j.lines}
}

func (j *journal) WithGroup(name string) slog.Handler {
	return &journal{j.Handler.WithGroup(name), j.lines}
}

// journaled puts the priority in front of each line. slog writes a line at once.
type journaled struct {
	to       io.Writer
	mu       sync.Mutex // while a record is handled
	priority string     // of that record
}

func (j *journaled) Write(line []byte) (int, error) {
	if _, err := j.to.Write(append([]byte(j.priority), line...)); err != nil {
		return 0, err
	}
	return len(line), nil
}

func priority(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return cli.PriorityError
	case l >= slog.LevelWarn:
		return cli.PriorityWarning
	case l >= slog.LevelInfo:
		return cli.PriorityInfo
	}
	return cli.PriorityDebug
}

// withoutTime drops the time of a record.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
