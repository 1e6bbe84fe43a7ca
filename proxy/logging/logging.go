// Package logging is the log of a running svcproxy: slog to one writer, as text
// or JSON, whose form and level can change while others hold it.
//
// Lines are written as they come. There is nothing to flush, so
// logging.flushFrequency has nothing to say.
package logging

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
)

// debugVerbosity is the klog verbosity from which kube-proxy says what it does
// step by step.
const debugVerbosity = 4

// Log is where a running svcproxy's lines go.
type Log struct {
	*slog.Logger
	level slog.LevelVar
	json  atomic.Bool
}

// New makes a log of text lines from level Info on.
func New(w io.Writer) *Log {
	l := new(Log)
	options := &slog.HandlerOptions{Level: &l.level}
	l.Logger = slog.New(&handler{json: &l.json, asText: slog.NewTextHandler(w, options), asJSON: slog.NewJSONHandler(w, options)})
	return l
}

// Set changes the form, "text" or "json", and the verbosity as klog counts it:
// 4 and more is level Debug.
func (l *Log) Set(format string, verbosity int) {
	l.json.Store(format == "json")
	level := slog.LevelInfo
	if verbosity >= debugVerbosity {
		level = slog.LevelDebug
	}
	l.level.Set(level)
}

// Toggle switches between the levels Info and Debug.
func (l *Log) Toggle() {
	if l.level.Level() == slog.LevelDebug {
		l.level.Set(slog.LevelInfo)
	} else {
		l.level.Set(slog.LevelDebug)
	}
}

// handler is both forms, of which one is in use.
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
