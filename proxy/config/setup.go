package config

import (
	"path/filepath"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// Setup is one reading of the configuration: the settings and the services in it.
type Setup struct {
	Loaded
	Static   sources.Table
	Warnings []string // about settings and services, one line each
}

// Load reads the configuration once, with its services. The error is an *Error,
// an *UnreadableError or a *sources.RejectedError. On an error the Setup still
// has the warnings, the file's name and its stateDir.
func Load(flags *Flags) (Setup, error) {
	loaded, err := Read(flags)
	return resolve(loaded, err)
}

// resolve decodes the services of a configuration that was read.
func resolve(loaded Loaded, err error) (Setup, error) {
	s := Setup{Loaded: loaded}
	for _, w := range loaded.Warnings {
		s.Warnings = append(s.Warnings, w.Error())
	}
	if err != nil || loaded.YAML {
		return s, err // a KubeProxyConfiguration has no services
	}
	table, warnings, problems := file.DecodeServices(sources.Static, loaded.File, loaded.Data)
	for _, w := range warnings {
		s.Warnings = append(s.Warnings, w.Error())
	}
	if problems = append(problems, sources.Validate(table)...); len(problems) > 0 {
		return s, &sources.RejectedError{Files: []string{loaded.File}, Problems: problems}
	}
	s.Static = table
	return s, nil
}

// LastGood is the store of the last good content of svcproxy.toml.
func LastGood(stateDir string) file.LastGood {
	return file.LastGood{Dir: filepath.Join(stateDir, "last-good")}
}

func (s Setup) lastGood() file.LastGood { return LastGood(s.Config.StateDir) }
