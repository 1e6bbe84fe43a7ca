package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/daemon"
)

// relayed adds to a reading the virtual and real servers of mode userspace, which only the daemon knows.
// Without a daemon there are none.
func (o *offline) relayed(ctx context.Context, s daemon.Setup, have *kernel.Observed) error {
	text, err := control.Client{Socket: daemon.Socket(s.Config.RuntimeDir)}.Relayed(ctx)
	var missing *cli.Error
	if errors.As(err, &missing) && missing.Code == cli.NoDaemon {
		o.warn("svcproxy does not run, so nothing is served in mode userspace")
		text, err = "", nil
	}
	if err != nil {
		return err
	}
	relay, err := kernel.ParseObserved(text)
	if err != nil {
		return fmt.Errorf("svcproxy's virtual servers: %w", err)
	}
	have.Relayed = true
	for _, v := range have.Virtuals {
		have.InIPVS = append(have.InIPVS, v.Key)
	}
	ours := func(k kernel.VirtualKey) bool {
		_, found := kernel.FindVirtual(relay.Virtuals, k)
		return found
	}
	have.Virtuals = append(slices.DeleteFunc(have.Virtuals, func(v kernel.Virtual) bool {
		return ours(v.Key)
	}), relay.Virtuals...)
	have.Reals = have.Reals.Where(func(r *kernel.Real) bool { return !ours(r.Key.Virtual) }).With(nil, relay.Reals.Slice())
	have.Conns, have.Fresh = nil, false
	have.Sort()
	return nil
}
