package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
		done.Failed = append(done.Failed, "the new configuration is not programmed yet: the sync takes longer than a reload waits, and continues")
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
		done.Warnings = append(done.Warnings, fmt.Sprintf("source %s has not delivered yet: nothing is removed until it has", name))
	}
	done.Warnings = slices.Concat(done.Warnings, c.current.Now().Warnings, c.files.Warnings(), now.Doubts, now.Warnings, c.allWarnings())
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
