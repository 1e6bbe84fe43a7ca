package console

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

// maxFailed is how many failed steps of a sync a reload names.
const maxFailed = 20

// Reload reads all files again. It returns when what is good of them has been
// programmed and a full check has found the kernel so, or when that has failed
// three times. What was good before goes on in the place of what is not.
func (c *Console) Reload(ctx context.Context) (control.Reloaded, error) {
	defer c.notify.Reloading()()
	done := control.Nothing()
	kept, refused := c.Current.Reload()
	for _, k := range kept {
		done.Restart = append(done.Restart, k.String())
	}
	for _, err := range []error{refused, c.Files.Reload(ctx)} {
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
	err := c.Current.Emitted(ctx)
	var now *proxy.Snapshot
	if err == nil {
		now, err = c.Proxy.Confirm(ctx)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		done.Failed = append(done.Failed, "what was read is not programmed yet: the sync takes longer than a reload waits, and goes on")
	case err != nil:
		return done, fmt.Errorf("reload: %w", err)
	default:
		c.outcome(&done, now)
	}
	return done, nil
}

// outcome adds what became of the sync that a reload waited for.
func (c *Console) outcome(done *control.Reloaded, now *proxy.Snapshot) {
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
	done.Warnings = slices.Concat(done.Warnings, c.Current.Now().Warnings, c.Files.Warnings(), now.Warnings, c.noted())
}

// failed says what of a sync failed, a line each; none if nothing did.
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
