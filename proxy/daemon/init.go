package daemon

import (
	"context"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

// Init sets the kernel parameters of the configured mode and the timeouts of IPVS, and leaves everything else alone.
// Parameters that depend on the services, such as forwarding of IPv6, are left to Run.
func Init(ctx context.Context, o Options) error {
	log := newLog(o.Log)
	s, err := Load(o.Flags, o.Version)
	if err != nil {
		return err
	}
	for _, w := range s.Warnings {
		log.Warn(w)
	}
	if err := s.Supported(); err != nil {
		return err
	}
	lock, err := host.AcquireLock()
	if err != nil {
		return err
	}
	defer lock.Release()
	s.loadModules(ctx)
	k, err := s.Open(ctx, s.Config.Names())
	if err != nil {
		return err
	}
	defer k.Close()
	have, err := k.Read(ctx)
	if err != nil {
		return err
	}
	want := s.Want(sources.Table{}, have.Node)
	want.Policy.Hold = true // what services need stays, if another run serves some
	p := proxy.Plan(ctx, nil, want, have)
	p.Ops = slices.DeleteFunc(p.Ops, func(op kernel.Op) bool {
		kind := op.Object.Kind()
		return op.Verb == kernel.Remove || kind != kernel.KindSysctl && kind != kernel.KindTimeouts
	})
	if err := k.Apply(ctx, p); err != nil {
		return err
	}
	for _, op := range p.Ops {
		log.Info("initialized", "set", op.String())
	}
	return nil
}
