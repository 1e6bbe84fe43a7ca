// Package static serves the table that stands in the main configuration itself, for a node whose
// services fit on the same page as its settings. The table never changes while the process runs: a
// reload of it is a restart, and what should change while running belongs in services.toml.
package static

import (
	"context"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// Decode reads the services table of svcproxy.toml, by the rules of services.toml; the document's other
// keys are proxy/config's. name is the file's name in messages.
func Decode(name string, data []byte) (t sources.Table, warnings, problems []sources.Problem) {
	return file.DecodeServices("static", name, data)
}

// Source emits one Table.
type Source struct {
	Table sources.Table
}

// Watch emits the table and waits for the end of ctx.
func (s Source) Watch(ctx context.Context, emit func(sources.Table, error)) error {
	emit(s.Table, nil)
	<-ctx.Done()
	return nil
}
