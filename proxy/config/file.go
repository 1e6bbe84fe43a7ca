package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Loaded is a configuration and the file it is from.
type Loaded struct {
	Config   Config
	File     string // "" if there was none
	Data     []byte // of File, for the services in it
	Warnings []Problem
}

// Load reads the file that flags name, or DefaultFile if that is there, and
// makes a Config of it and the flags. An *Error is a configuration that is not
// valid; any other is a file that cannot be read.
func Load(flags *Flags) (Loaded, error) {
	l := Loaded{File: flags.File}
	if l.File == "" {
		l.File = DefaultFile
	}
	var err error
	switch l.Data, err = os.ReadFile(l.File); {
	case errors.Is(err, fs.ErrNotExist) && flags.File == "":
		l.File = ""
	case err != nil:
		return l, fmt.Errorf("reading the configuration: %w", err)
	case isYAML(l.File):
		return l, &Error{[]Problem{{File: l.File, Message: "YAML is not read yet: write the configuration as TOML (--write-config-to FILE.toml makes one to start from)"}}}
	}
	l.Config, l.Warnings, err = Decode(l.File, l.Data, flags)
	return l, err
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
