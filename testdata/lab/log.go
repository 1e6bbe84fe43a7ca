package lab

import (
	"context"
	"fmt"
	"regexp"
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

// Wait waits for a whole line that matches the regular expression, written after
// the mark, and returns it without its end.
func (l *Log) Wait(ctx context.Context, mark int, expression string) (string, error) {
	match, err := regexp.Compile(expression)
	if err != nil {
		return "", err
	}
	for {
		text, written := l.since(mark)
		for line := range strings.Lines(text) {
			line, whole := strings.CutSuffix(line, "\n")
			if whole && match.MatchString(line) {
				return line, nil
			}
		}
		select {
		case <-written:
		case <-ctx.Done():
			return "", fmt.Errorf("no line with %q in the log: %w; since the mark it has:\n%s", expression, context.Cause(ctx), text)
		}
	}
}

// since is what was written after the mark, and a channel that more will close.
func (l *Log) since(mark int) (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written == nil {
		l.written = make(chan struct{})
	}
	return l.text.String()[mark:], l.written
}
