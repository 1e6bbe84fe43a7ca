// Package docs writes the manual pages, completion scripts and JSON schemas of the deb
// and rpm packages. It generates them from the tables that the program itself uses: its
// commands and flags, and the keys of its files.
package docs

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources/file"
)

// Write writes all files into dir, which it makes. The same program and edition give the
// same bytes.
func Write(dir string, p cli.Program, e Edition) error {
	files := map[string][]byte{
		"svcproxy.8":           e.program(p),
		"svcproxy.toml.5":      e.config(config.Keys()),
		"services.toml.5":      e.services(file.Keys()),
		"svcproxy.schema.json": configSchema(config.Keys(), file.Keys()),
		"services.schema.json": servicesSchema(file.Keys()),
	}
	prose, err := e.prose()
	if err != nil {
		return fmt.Errorf("writing documentation: %w", err)
	}
	maps.Copy(files, prose)
	for _, shell := range Shells {
		var b bytes.Buffer
		if err := Completion(&b, shell, p); err != nil {
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
