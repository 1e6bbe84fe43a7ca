package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/renameio/v2"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// Loaded is a configuration and its file.
type Loaded struct {
	Config   Config
	File     string // "" if there was none
	Data     []byte // the content of File, which may have services
	YAML     bool   // Data is a KubeProxyConfiguration, which has no services
	Warnings []sources.Problem
}

// Read reads the settings: the file that flags name, or DefaultFile if it exists,
// with the flags over it. Load reads the services, too. The error is an *Error if
// the configuration is invalid, an *UnreadableError if it cannot be read. On an
// error File is the name that was tried.
func Read(flags *Flags) (Loaded, error) {
	name := flags.Path()
	content, err := file.Read(name)
	if errors.Is(err, fs.ErrNotExist) && flags.File == "" {
		name, err = "", nil
	}
	if err != nil {
		return Loaded{Config: Default(), File: name}, &UnreadableError{err}
	}
	return Parse(name, content.Data, flags)
}

// Parse is Read for content that was read already. On an error Config holds the
// defaults, but StateDir and RuntimeDir are the content's where it has them.
func Parse(name string, data []byte, flags *Flags) (Loaded, error) {
	l := Loaded{File: name, Data: data, YAML: isYAML(name, data)}
	var err error
	l.Config, l.Warnings, err = Decode(name, data, flags)
	return l, err
}

// Path is the file to read: --config, or DefaultFile.
func (f *Flags) Path() string {
	if f.File != "" {
		return f.File
	}
	return DefaultFile
}

// Write writes a complete configuration to a file, for --write-config-to. It is a
// KubeProxyConfiguration if the name ends in .yaml or .yml, else TOML. The file is
// replaced as a whole.
func Write(name string, c Config) error {
	text := c.TOML()
	if isYAML(name, nil) {
		text = c.YAML()
	}
	if err := replace(name, text); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	return nil
}

// replace creates a file, or replaces a regular one. It refuses a link or a device,
// because a rename would replace it: root would turn /dev/stdout into a file.
func replace(name string, text []byte) error {
	switch is, err := os.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !is.Mode().IsRegular():
		return fmt.Errorf("%s is there and not a regular file: give another name", name)
	}
	return renameio.WriteFile(name, text, 0o644, renameio.IgnoreUmask())
}
