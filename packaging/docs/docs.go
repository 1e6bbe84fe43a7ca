// Package docs writes what a package has for people and their tools: manual
// pages, completion scripts and schemas, all from the tables that the program
// itself works with.
package docs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/svcproxy/svcproxy/packaging/completion"
	"github.com/svcproxy/svcproxy/packaging/man"
	"github.com/svcproxy/svcproxy/packaging/schema"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources/file"
)

// Write writes all of it into dir, which it makes. The same program and edition
// give the same bytes.
func Write(dir string, p cli.Program, e man.Edition) error {
	files := map[string][]byte{
		"svcproxy.8":           e.Program(p),
		"svcproxy.toml.5":      e.Config(config.Keys()),
		"services.toml.5":      e.Services(file.Keys()),
		"svcproxy.schema.json": schema.Config(config.Keys(), file.Keys()),
		"services.schema.json": schema.Services(file.Keys()),
	}
	for _, shell := range completion.Shells {
		var b bytes.Buffer
		if err := completion.Write(&b, shell, p); err != nil {
			return err
		}
		files["completion."+shell] = b.Bytes()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing documentation: %w", err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return fmt.Errorf("writing documentation: %w", err)
		}
	}
	return nil
}
