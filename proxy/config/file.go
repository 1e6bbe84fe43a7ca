package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/svcproxy/svcproxy/sources/file"
)

// Loaded is a configuration and the file it is from.
type Loaded struct {
	Config   Config
	File     string // "" if there was none
	Data     []byte // of File, for the services in it
	YAML     bool   // Data is YAML, which has no services
	Warnings []Problem
}

// Load reads the file that flags name, or DefaultFile if that is there, and
// makes a Config of it and the flags. An *Error is a configuration that is not
// valid; any other is a file that cannot be read. Beside an error, File is what
// was tried.
func Load(flags *Flags) (Loaded, error) {
	name := flags.Path()
	data, err := file.Read(name)
	if errors.Is(err, fs.ErrNotExist) && flags.File == "" {
		name, err = "", nil
	}
	if err != nil {
		return Loaded{Config: Default(), File: name}, fmt.Errorf("reading the configuration: %w", err)
	}
	return Parse(name, data, flags)
}

// Parse is Load for content that was read already. Beside an error, of Config
// only StateDir and RuntimeDir are what the content says, if it says that much.
func Parse(name string, data []byte, flags *Flags) (Loaded, error) {
	l := Loaded{Config: Default(), File: name, Data: data}
	if isYAML(name) {
		return l, &Error{[]Problem{{File: name, Message: "YAML is not read yet: write the configuration as TOML (--write-config-to FILE.toml makes one to start from)"}}}
	}
	var err error
	l.Config, l.Warnings, err = Decode(name, data, flags)
	return l, err
}

// Path is the file that is read: the one given, or DefaultFile.
func (f *Flags) Path() string {
	if f.File != "" {
		return f.File
	}
	return DefaultFile
}

func isYAML(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	return ext == ".yaml" || ext == ".yml"
}

// Write puts a complete configuration into a file, for --write-config-to.
func Write(name string, c Config) error {
	if isYAML(name) {
		return fmt.Errorf("writing %s: YAML is not written yet: give a name that ends in .toml", name)
	}
	if err := os.WriteFile(name, c.TOML(), 0o644); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	return nil
}
