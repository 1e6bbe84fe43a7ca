//go:build !noapiserver

package apiserver

import (
	"context"
	"log/slog"
	"sync"

	"k8s.io/klog/v2"
)

var quietenOnce sync.Once

// quieten logs client-go's own messages at level debug. Watch reports what an operator needs to know of them, once and
// not at each attempt. client-go has one log per process.
func quieten(log *slog.Logger) {
	quietenOnce.Do(func() { klog.SetSlogLogger(slog.New(debug{log.Handler()})) })
}

// debug sets the level of every record to debug.
type debug struct{ slog.Handler }

func (d debug) Enabled(ctx context.Context, _ slog.Level) bool {
	return d.Handler.Enabled(ctx, slog.LevelDebug)
}

func (d debug) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

func (d debug) WithAttrs(attrs []slog.Attr) slog.Handler { return debug{d.Handler.WithAttrs(attrs)} }

func (d debug) WithGroup(name string) slog.Handler { return debug{d.Handler.WithGroup(name)} }
