package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/daemon"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/apiserver"
	"github.com/svcproxy/svcproxy/sources/dns"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

// table is the table of all sources, merged as the daemon would. If one source cannot
// be read there is none: a plan would remove that source's services.
func (o *offline) table(ctx context.Context, s *daemon.Setup, have *kernel.Observed) (sources.Table, error) {
	var objects []sources.Table // read first, although they come last: the Node object is among the facts
	if s.Config.APIServer.Enabled {
		table, problems, err := o.apiServerTable(ctx, s)
		if err != nil {
			return sources.Table{}, cli.Errorf(cli.Failed, "svcproxy status shows the state of the source, if svcproxy runs",
				"without the services of the API server no plan can be made: %w", err)
		}
		objects = append(objects, table)
		for _, problem := range problems {
			o.warn(problem.Error())
		}
	}
	facts := s.Facts(have.Node)
	files, err := o.serviceFiles(ctx, s.Files(), facts)
	o.doubts(facts, s.Static)
	if err != nil {
		return sources.Table{}, err
	}
	static, left := dns.Once(ctx, s.DNS(), s.Static)
	o.named(left)
	files, left = dns.Once(ctx, s.DNS(), files)
	o.named(left)
	tables := append([]sources.Table{static, files}, objects...)
	before, err := file.ReadIncumbents(s.Config.StateDir)
	if err != nil {
		o.warn(err.Error())
	}
	merger := sources.Merger{Before: before}
	facts.Serving = proxy.Serving(have)
	if o.state == "" { // else of another machine or time
		facts = o.listening(facts, have.Node)
		facts.NoLimits = daemon.NoLimits(tables...)
	}
	merged := merger.Merge(facts, nil, tables...)
	for _, problem := range merged.Problems {
		o.warn(problem.Error())
	}
	return merged.Table, nil
}

// apiServerTable asks the running daemon for the table of the API server, or the API
// server itself if no daemon runs. problems are what that table leaves out; a daemon has
// logged them.
func (o *offline) apiServerTable(ctx context.Context, s *daemon.Setup) (table sources.Table, problems []sources.Problem,
	err error) {
	got, err := control.Client{Socket: daemon.Socket(s.Config.RuntimeDir)}.Table(ctx, sources.APIServer)
	switch {
	case err != nil && cli.Code(err) == cli.NoDaemon:
		return readAPIServer(ctx, s)
	case err != nil:
		return table, nil, err
	case got.Version != o.Version:
		return table, nil, fmt.Errorf("svcproxy %s is running and this is %s: restart it", got.Version, o.Version)
	case !got.Delivered:
		return table, nil, errors.New("svcproxy is running and has no services from it yet")
	}
	if got.Node != nil {
		s.Object = frontend.NodeObject(*got.Node)
	}
	return sources.Table{Services: sources.ServicesOf(got.Services...)}, nil, nil
}

const (
	// apiServerLimit is how long a plan waits for an API server.
	apiServerLimit = 30 * time.Second
	// outageLimit is how long it still waits after the first error.
	outageLimit = 5 * time.Second
)

// readAPIServer returns the first table of the API server, and what is wrong with parts of it. An incomplete
// table is an error: a daemon that starts with it removes nothing for not being in it.
func readAPIServer(ctx context.Context, s *daemon.Setup) (table sources.Table, problems []sources.Problem, err error) {
	o := s.APIServer()
	o.OnNode = func(n manifest.Node) { s.SetNode(n) }
	if err := apiserver.Check(o); err != nil { // Watch would wait for better credentials
		return table, nil, err
	}
	api, err := apiserver.New(o)
	if err != nil {
		return table, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, apiServerLimit)
	defer cancel()
	why := error(context.DeadlineExceeded)
	err = api.Watch(ctx, func(t sources.Table, refused error) {
		rejected := &sources.RejectedError{}
		if refused != nil && !errors.As(refused, &rejected) {
			// One kind of objects may fail for a moment and the table still come.
			if errors.Is(why, context.DeadlineExceeded) {
				time.AfterFunc(outageLimit, cancel)
			}
			why = refused
			return
		}
		table, problems, why = t, rejected.Problems, nil
		if rejected.Incomplete {
			why = incomplete(rejected.Problems)
		}
		cancel()
	})
	return table, problems, errors.Join(err, why)
}

// incomplete says why a table lacks services, in one line. A single service that is left out is no reason.
func incomplete(problems []sources.Problem) error {
	var whole []string
	for _, p := range problems {
		if p.Service == "" {
			whole = append(whole, p.Message)
		}
	}
	return errors.New("they are incomplete: " + strings.Join(whole, "; "))
}
