//go:build !noapiserver

package apiserver

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

// Built says whether this build has the source.
const Built = true

// What comes in bursts, as the slices of a rollout do, is one table.
const (
	quietFor  = 10 * time.Millisecond  // without an event, before a table is made
	waitAtAll = 100 * time.Millisecond // at most, while events keep coming
)

// Source follows an API server. What it emits beside a table is a *sources.RejectedError: services that
// cannot be served and are left out, and kinds that cannot be read while others can. When neither
// services nor endpoints can be read it emits an *OutageError, and the table stays.
type Source struct {
	o    Options
	conn *connection
}

// New reads the kubeconfig, or the pod's account, and asks nothing of the API server yet.
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
	return &Source{o: o, conn: conn}, nil
}

// Watch lists and watches until ctx ends. The first table comes when services and endpoints were listed
// completely, and the Node was asked for; it never gives up.
func (s *Source) Watch(ctx context.Context, emit func(sources.Table, error)) error {
	node := ""
	if s.o.OnNode != nil {
		node = s.o.NodeName
	}
	c := newCatalog()
	c.grace = s.o.EmptyGrace
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer s.conn.close()
	defer following.Wait()
	defer cancel()
	for _, k := range kinds(c, node) {
		f := &follower{kind: k, at: s.conn, catalog: c}
		following.Go(func() { f.run(ctx) })
	}
	t := &teller{o: s.o, emit: emit, withNode: node != "", table: table{node: s.o.NodeName}}
	t.run(ctx, c)
	return nil
}

// teller makes tables of a catalog and emits those that differ.
type teller struct {
	o        Options
	emit     func(sources.Table, error)
	withNode bool

	table table
	node  manifest.Node
	spoke bool     // a table was emitted
	said  []string // what was said to be out at the last emission,
	total bool     // and whether that was all
}

func (t *teller) run(ctx context.Context, c *catalog) {
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
			t.tell(c.look(t.withNode))
		}
	}
}

// quiet returns when nothing has come for a while, or it has waited long enough.
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

func (t *teller) tell(n news) {
	if !n.node.Equal(t.node) {
		t.node = n.node
		t.o.OnNode(n.node)
	}
	out := append(n.outages.reasons(), n.held...)
	otherwise := !slices.Equal(out, t.said) || n.outages.total() != t.total
	t.said, t.total = out, n.outages.total()
	if !n.complete {
		if otherwise && len(out) > 0 {
			t.emit(sources.Table{}, n.outages.error())
		}
		return
	}
	changed := t.table.update(n.changes) || !t.spoke
	t.spoke = true
	switch {
	case !changed && !otherwise:
		return
	case !changed && t.total:
		t.emit(sources.Table{}, n.outages.error())
		return
	}
	table := sources.Table{Services: t.table.services}
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
