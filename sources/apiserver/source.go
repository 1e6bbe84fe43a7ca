//go:build !noapiserver

package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

// Built says whether this build has the source.
const Built = true

// A burst of changes, such as the slices of a rollout, makes one table.
const (
	quietFor  = 10 * time.Millisecond  // without an event before a table is made
	waitAtAll = 100 * time.Millisecond // the limit while events keep coming
)

// Source follows an API server. The error that comes with a table is a *sources.RejectedError: services that are left
// out because they cannot be served, and kinds that cannot be read. If neither services nor endpoints can be read,
// Source emits an *OutageError, and the last table stays.
type Source struct {
	o       Options
	conn    *connection
	catalog *catalog
}

// New reads the kubeconfig or the pod's account. It sends no request. What is wrong with these files is no error of
// New: Watch emits it, and waits until it is mended.
func New(o Options) (*Source, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	quieten(o.Log)
	measure(o.Metrics)
	conn, err := connect(o)
	if err != nil {
		return nil, err
	}
	c := newCatalog(o.ProxyName)
	c.grace = o.EmptyGrace
	return &Source{o: o, conn: conn, catalog: c}, nil
}

// Others are the Services that are left to other proxies. It may be called from any goroutine.
func (s *Source) Others() sources.Others {
	why := "their label " + manifest.ProxyNameLabel + " gives them to another proxy"
	if s.o.ProxyName != "" {
		why = fmt.Sprintf("their label %s is not %q (sources.apiserver.proxyName)", manifest.ProxyNameLabel, s.o.ProxyName)
	}
	count, first := s.catalog.others()
	return sources.Others{Count: count, First: first, Why: why}
}

// Check reads the kubeconfig, and the files that it names, as New does, and returns what is wrong with them.
// It sends no request and runs no plugin.
func Check(o Options) error {
	c, err := connect(o)
	if err != nil {
		return err
	}
	defer c.close()
	now, err := c.renew()
	if err == nil && now.runs != nil && filepath.IsAbs(now.runs.config.Command) {
		if _, err := os.Stat(now.runs.config.Command); err != nil {
			return fmt.Errorf("%s: exec plugin: %w", c.from(), err)
		}
	}
	return err
}

// Watch lists and watches until ctx ends, and retries for ever. It emits the first table when all services and
// endpoints are listed and the Node was requested.
func (s *Source) Watch(ctx context.Context, emit func(sources.Table, error)) error {
	defer s.conn.close()
	if !s.conn.await(ctx, func(err error) { emit(sources.Table{}, err) }) {
		return nil
	}
	node := ""
	if s.o.OnNode != nil {
		node = s.o.NodeName
	}
	c := s.catalog
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	for _, k := range kinds(c, node) {
		f := &follower{kind: k, at: s.conn, catalog: c}
		following.Go(func() { f.run(ctx) })
	}
	t := &emitter{o: s.o, emit: emit, withNode: node != "", table: table{node: s.o.NodeName}}
	t.run(ctx, c)
	return nil
}

// emitter makes tables from a catalog and emits those that differ from the last one.
type emitter struct {
	o        Options
	emit     func(sources.Table, error)
	withNode bool

	table   table
	node    manifest.Node
	emitted bool     // a table was emitted
	out     []string // the outages and holds at the last emission
	total   bool     // whether those outages were total
}

func (t *emitter) run(ctx context.Context, c *catalog) {
	var resync <-chan time.Time
	if t.o.Resync > 0 {
		ticker := time.NewTicker(t.o.Resync)
		defer ticker.Stop()
		resync = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-resync:
			c.touchAll()
		case <-c.wake:
			quiet(ctx, c.wake)
		}
		if ctx.Err() == nil {
			t.emitNews(c.look(t.withNode))
		}
	}
}

// quiet returns after quietFor without an event, and after waitAtAll at the latest.
func quiet(ctx context.Context, wake <-chan struct{}) {
	enough := time.NewTimer(waitAtAll)
	defer enough.Stop()
	still := time.NewTimer(quietFor)
	defer still.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-enough.C:
			return
		case <-still.C:
			return
		case <-wake:
			still.Reset(quietFor)
		}
	}
}

func (t *emitter) emitNews(n news) {
	if !n.node.Equal(t.node) {
		t.node = n.node
		t.o.OnNode(n.node)
	}
	out := append(n.outages.reasons(), n.held...)
	otherwise := !slices.Equal(out, t.out) || n.outages.total() != t.total
	t.out, t.total = out, n.outages.total()
	if !n.complete {
		if otherwise && len(out) > 0 {
			t.emit(sources.Table{}, n.outages.error())
		}
		return
	}
	if _, unread := n.outages["nodes"]; !t.emitted && t.withNode && n.node.Name == "" && !unread && t.o.NoNode != nil {
		t.o.NoNode()
	}
	changed := t.table.update(n.changes) || !t.emitted
	t.emitted = true
	switch {
	case !changed && !otherwise:
		return
	case !changed && t.total:
		t.emit(sources.Table{}, n.outages.error())
		return
	}
	table := t.table.Table
	if changed {
		table.Seen = n.seen
	}
	problems := n.outages.problems()
	for _, text := range n.held {
		problems = append(problems, sources.Problem{Message: text})
	}
	if problems = append(problems, t.table.refused()...); len(problems) > 0 {
		t.emit(table, &sources.RejectedError{Problems: problems, Incomplete: n.hold})
		return
	}
	t.emit(table, nil)
}
