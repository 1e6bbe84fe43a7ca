package lab

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

// A Log keeps what a program writes and wakes those who wait for a line.
type Log struct {
	mu      sync.Mutex
	text    strings.Builder
	written chan struct{} // closed by the next write
}

// Write never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written != nil {
		close(l.written)
		l.written = nil
	}
	return l.text.Write(p)
}

// String is everything so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Len is a mark to look for lines after.
func (l *Log) Len() int { return len(l.String()) }

// Wait waits for a whole line that contains part, written after the mark, and
// returns it.
func (l *Log) Wait(ctx context.Context, mark int, part string) (string, error) {
	for {
		l.mu.Lock()
		text := l.text.String()[mark:]
		if l.written == nil {
			l.written = make(chan struct{})
		}
		written := l.written
		l.mu.Unlock()
		for line := range strings.Lines(text) {
			if strings.Contains(line, part) && strings.HasSuffix(line, "\n") {
				return line, nil
			}
		}
		select {
		case <-written:
		case <-ctx.Done():
			return "", fmt.Errorf("no line with %q in the log: %w; since the mark it has:\n%s", part, ctx.Err(), text)
		}
	}
}
