package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/sources"
)

// maxFailed is how many failed steps of a sync the answer names.
const maxFailed = 20

// reload reads all files again. It returns when their valid content is programmed and
// verified by a full check, or when that has failed three times. A file that is not
// valid keeps its last good content.
func (c *console) reload(ctx context.Context) (control.Reloaded, error) {
	defer c.notify.reloading()()
	defer c.askers.add(cmp.Or(control.AskedBy(ctx), "signal HUP"))()
	done := control.Nothing()
	kept, refused := c.current.Reload()
	for _, k := range kept {
		done.Restart = append(done.Restart, k.String())
	}
	for _, err := range []error{refused, c.files.Reload(ctx)} {
		var rejected *sources.RejectedError
		switch {
		case errors.As(err, &rejected):
			done.Kept = append(done.Kept, rejected.Files...)
			for _, p := range rejected.Problems {
				done.Rejected = append(done.Rejected, p.Error())
			}
		case err != nil:
			return done, fmt.Errorf("reload: %w", err)
		}
	}
	err := c.current.Emitted(ctx)
	var now *proxy.Snapshot
	if err == nil {
		now, err = c.proxy.Confirm(ctx)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		done.Failed = append(done.Failed, "the new configuration is not programmed yet: the sync takes longer than a "+
			"reload waits, and continues")
	case err != nil:
		return done, fmt.Errorf("reload: %w", err)
	default:
		c.outcome(&done, now)
	}
	return done, nil
}

// outcome adds the result of the sync that a reload waited for.
func (c *console) outcome(done *control.Reloaded, now *proxy.Snapshot) {
	done.Failed = failed(now.Report.Err)
	for _, conflict := range now.Report.Plan.Conflicts {
		done.Conflicts = append(done.Conflicts, conflict.String())
	}
	for _, taken := range now.Report.Plan.Taken {
		done.Conflicts = append(done.Conflicts, taken.String())
	}
	for _, p := range now.Report.Problems {
		done.Conflicts = append(done.Conflicts, p.Error())
	}
	for _, name := range now.Report.Waiting {
		done.Warnings = append(done.Warnings, sources.WordsFor(name).Waiting+": nothing is removed until then")
	}
	for _, v := range now.Announced {
		if !v.Until.IsZero() {
			done.Warnings = append(done.Warnings, fmt.Sprintf("%s: no longer announced, and served until %s", v.Addr,
				v.Until.Local().Format(time.DateTime)))
		}
	}
	done.Warnings = slices.Concat(done.Warnings, c.current.Now().Warnings, c.files.Warnings(), now.Doubts, now.Warnings,
		c.allWarnings())
}

// failed lists the failed steps of a sync, one line each.
func failed(err error) []string {
	lines := []string{}
	var steps *kernel.ApplyError
	switch {
	case err == nil:
	case !errors.As(err, &steps):
		lines = append(lines, err.Error())
	default:
		for i, f := range steps.Failed {
			if i == maxFailed {
				return append(lines, fmt.Sprintf("and %d more steps failed", len(steps.Failed)-i))
			}
			lines = append(lines, f.Error())
		}
	}
	return lines
}

// askers are who asked for the reloads in progress.
type askers struct {
	mu  sync.Mutex
	all []string
}

// add adds one until the result is called.
func (a *askers) add(who string) (end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, who)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if i := slices.Index(a.all, who); i >= 0 {
			a.all = slices.Delete(a.all, i, i+1)
		}
	}
}

// String names each once: "root (uid 0), signal HUP"; "" if there are none.
func (a *askers) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(a.all))), ", ")
}
