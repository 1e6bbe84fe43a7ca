package commands

import (
	"errors"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/daemon"
	"github.com/svcproxy/svcproxy/sources"
)

// synced returns the kernel as it is after a sync of a table. What real servers that drain would have then is as it is
// now, and so are routes and firewalls.
func (c *explainCommand) synced(s *daemon.Setup, t sources.Table, have kernel.Observed) (kernel.Observed, error) {
	p := plan.Once(c.wantAtStart(s, t, &have), have)
	after, ok := plan.Advance(have, p.Ops)
	if !ok {
		return have, errors.New("the state after this sync cannot be computed: svcproxy plan shows its steps")
	}
	after.Sort()
	return after, nil
}
