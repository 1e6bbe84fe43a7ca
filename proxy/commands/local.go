package commands

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/daemon"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// local is what the commands share that read the configuration themselves, as check and
// plan do, and do not ask the running svcproxy for it.
type local struct {
	*Env
	output
	lists    sources.Lists // of the service files
	collects bool          // warnings are part of the answer, and not printed
	warned   []string      // all warnings so far
}

// load reads the configuration and prints its warnings.
func (l *local) load() (daemon.Setup, error) {
	s, err := daemon.Load(l.config, l.Version)
	l.warn(s.Warnings...)
	return s, err
}

// warn prints warnings on standard error, unless the answer has them.
func (l *local) warn(lines ...string) {
	l.warned = append(l.warned, lines...)
	if l.collects {
		return
	}
	for _, line := range lines {
		l.Env.warn(line)
	}
}

// print prints a plan in the wanted format.
func (l *local) print(p kernel.Plan, text string) error {
	if l.output == "json" {
		return l.encode(p)
	}
	_, err := io.WriteString(l.Out, text)
	return err
}

// serviceFiles reads the service files once and prints their warnings, for a node with
// these facts. If a file is refused, that is an error.
func (l *local) serviceFiles(ctx context.Context, o file.Options, facts sources.HostFacts) (sources.Table, error) {
	table, warnings, problems, err := file.Load(ctx, o)
	if err != nil {
		return sources.Table{}, err
	}
	l.lists = table.Lists
	l.doubts(facts, table, warnings...)
	if len(problems) > 0 {
		return sources.Table{}, &sources.RejectedError{Files: filesOf(problems), Problems: problems}
	}
	return table, nil
}

// named prints warnings about DNS names of backends.
func (l *local) named(problems []sources.Problem) {
	for _, p := range problems {
		l.warn(p.Error())
	}
}

// filesOf lists the files that problems are about, sorted.
func filesOf(problems []sources.Problem) []string {
	var files []string
	for _, p := range problems {
		if p.Origin.File != "" {
			files = append(files, p.Origin.File)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// listening returns facts with the programs of this host that listen. What cannot be read is a warning.
func (l *local) listening(facts sources.HostFacts, here kernel.Node) sources.HostFacts {
	if len(here.Addrs) == 0 {
		return facts // no service is at an address of this node
	}
	programs, err := new(host.Sockets).Listeners(func(uint16, kernel.Proto) bool { return true })
	if err != nil {
		l.warn(fmt.Sprintf("cannot read which programs listen here, so the services are not compared with them: %v", err))
	}
	return proxy.Listening(facts, here, programs)
}

// doubts prints warnings about services that are served, but probably not as intended on
// this node, and more warnings of their source.
func (l *local) doubts(facts sources.HostFacts, t sources.Table, more ...sources.Problem) {
	if t.Lists == nil {
		t.Lists = l.lists
	}
	warnings := append(more, sources.Doubts(facts, t)...)
	sources.SortProblems(warnings)
	for _, w := range warnings {
		l.warn(w.Error())
	}
}
