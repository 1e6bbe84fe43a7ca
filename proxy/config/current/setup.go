package current

import (
	"path/filepath"

	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/lastgood"
	"github.com/svcproxy/svcproxy/sources/static"
)

// Setup is a configuration as it was read, with the services in it.
type Setup struct {
	config.Loaded
	Static   sources.Table
	Warnings []string // about both, one line each
}

// Facts are what validation of services may know of the node under a
// configuration.
type Facts func(config.Config) sources.HostFacts

// Load reads the configuration once. The error is a *config.Error, a
// *sources.RejectedError, or says why the file cannot be read; beside it the
// Setup has the warnings, the name of the file and its stateDir.
func Load(flags *config.Flags, facts Facts) (Setup, error) {
	loaded, err := config.Load(flags)
	return resolve(loaded, err, facts)
}

// resolve decodes the services in what was read.
func resolve(loaded config.Loaded, err error, facts Facts) (Setup, error) {
	s := Setup{Loaded: loaded}
	for _, w := range loaded.Warnings {
		s.Warnings = append(s.Warnings, w.Error())
	}
	if err != nil || loaded.YAML {
		return s, err // a KubeProxyConfiguration has no services
	}
	table, warnings, problems := static.Decode(loaded.File, loaded.Data)
	doubts, errs := sources.Validate(table, facts(loaded.Config))
	for _, w := range append(warnings, doubts...) {
		s.Warnings = append(s.Warnings, w.Error())
	}
	if problems = append(problems, errs...); len(problems) > 0 {
		return s, &sources.RejectedError{Files: []string{loaded.File}, Problems: problems}
	}
	s.Static = table
	return s, nil
}

// LastGood is where contents are kept that were once accepted.
func LastGood(stateDir string) lastgood.Store {
	return lastgood.Store{Dir: filepath.Join(stateDir, "last-good")}
}

func (s Setup) lastGood() lastgood.Store { return LastGood(s.Config.StateDir) }
