package daemon

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/svcproxy/svcproxy/proxy/cli"
)

// debugVerbosity is the lowest klog verbosity at which kube-proxy logs each step.
const debugVerbosity = 4

// dynamicLog is the log of the process. Its format and level can change while other
// parts hold its Logger. Lines are written at once, so logging.flushFrequency has no
// effect.
type dynamicLog struct {
	*slog.Logger
	level slog.LevelVar
	json  atomic.Bool
}

// newLog returns a log that writes text lines of level Info and above to w. If w is the journal, each line begins
// with its priority, and a text line has no time, which the journal has itself.
func newLog(w io.Writer) *dynamicLog {
	l := new(dynamicLog)
	if cli.Journal(w) {
		l.Logger = slog.New(newJournal(w, l.handler))
	} else {
		l.Logger = slog.New(l.handler(w, nil))
	}
	return l
}

// handler writes both formats to w. without may drop attributes of text lines.
func (l *dynamicLog) handler(w io.Writer, without func([]string, slog.Attr) slog.Attr) slog.Handler {
	text, json := &slog.HandlerOptions{Level: &l.level, ReplaceAttr: without}, &slog.HandlerOptions{Level: &l.level}
	return &handler{json: &l.json, asText: slog.NewTextHandler(w, text), asJSON: slog.NewJSONHandler(w, json)}
}

// Set changes the format, "text" or "json", and the klog verbosity: 4 and above is
// level Debug, less is Info.
func (l *dynamicLog) Set(format string, verbosity int) {
	l.json.Store(format == "json")
	level := slog.LevelInfo
	if verbosity >= debugVerbosity {
		level = slog.LevelDebug
	}
	l.level.Set(level)
}

// Toggle switches between the levels Info and Debug.
func (l *dynamicLog) Toggle() {
	if l.level.Level() == slog.LevelDebug {
		l.level.Set(slog.LevelInfo)
	} else {
		l.level.Set(slog.LevelDebug)
	}
}

// handler writes one of two formats. It is chosen at each record, so that loggers
// made with With follow a change too.
type handler struct {
	json           *atomic.Bool
	asText, asJSON slog.Handler
}

func (h *handler) current() slog.Handler {
	if h.json.Load() {
		return h.asJSON
	}
	return h.asText
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.current().Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	return h.current().Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{json: h.json, asText: h.asText.WithAttrs(attrs), asJSON: h.asJSON.WithAttrs(attrs)}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{json: h.json, asText: h.asText.WithGroup(name), asJSON: h.asJSON.WithGroup(name)}
}
