package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// values is what needs no kernel: a file to a table, to what the kernel should look
// like.
func (b *bench) values(p *pass) error {
	dir, err := os.MkdirTemp("", "bench-values-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "services.toml")
	data := []byte(text(table(p.size, p.family)))
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return err
	}
	var t sources.Table
	for _, step := range []struct {
		row string
		do  func() error
	}{
		{"file: read, parse, validate", func() (err error) {
			var problems []sources.Problem
			t, _, problems, err = file.Load(context.Background(), file.Options{Paths: []string{path}})
			if err == nil && len(problems) > 0 {
				err = problems[0]
			}
			return err
		}},
		{"file: parse", func() error { file.Decode(path, data); return nil }},
		{"file: validate", func() error { sources.Validate(t); return nil }},
		{"merge", func() error { sources.Merge(sources.HostFacts{}, t, sources.Table{}); return nil }},
		{"rules", func() error { wanted(t, kernel.Node{}); return nil }},
	} {
		if err := p.lap(step.row, step.do); err != nil {
			return err
		}
	}
	if t.Services.Len() != p.size.services {
		return fmt.Errorf("the file has %d services", t.Services.Len())
	}
	return nil
}
