package daemon

import (
	"context"
	"log/slog"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/relay"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/userspace"
)

// portals are the virtual servers of mode userspace on whose port another program listens. The loop alone uses it.
type portals struct {
	relay *relay.Relay
	ports relay.Ports
	// try asks the kernel whether it takes the rules that portals need. It is first called when a portal is needed:
	// rules of table nat make a kernel track all connections.
	try func() error
	log *slog.Logger

	tried   time.Time                    // when try was last called
	refusal error                        // of try
	failed  map[kernel.VirtualKey]string // why, as logged
}

// newPortals returns the portals of a relay that has none yet.
func (d *daemon) newPortals(ctx context.Context, s Setup) *portals {
	first, last := s.Config.Ports()
	try := func() error { return d.kernel.Try(ctx, userspace.PortalTrial(s.Config.Names())) }
	return &portals{relay: s.relay, ports: relay.Ports{First: first, Last: last}, try: try, log: d.log.Logger}
}

// open opens the listeners of what is served and returns the portals among them. It comes before the plan, so
// that a plan that makes a VIP local has the rules of its portals, too: its clients never reach the other
// program.
func (p *portals) open(f *frontend.Frontends) []mode.Portal {
	failed := map[kernel.VirtualKey]string{}
	for _, k := range p.relay.Reserve(userspace.Served(f)) {
		err := p.usable()
		if err == nil {
			err = p.relay.OpenPortal(k, p.ports)
		}
		if err == nil {
			continue
		}
		if failed[k] = err.Error(); p.failed[k] != failed[k] {
			p.log.Warn("cannot redirect packets: another program listens on the port of a virtual server",
				"virtual", k.String(), "err", err)
		}
	}
	p.failed = failed
	var all []mode.Portal
	for k, at := range p.relay.Portals() {
		all = append(all, mode.Portal{Virtual: k, Port: at.Port()})
	}
	kernel.SortFunc(all, func(a, b mode.Portal) int { return a.Virtual.Compare(b.Virtual) })
	return all
}

// retryPortals is how long a refusal counts. It may have been of the moment: another program held the lock of
// iptables for 5 s, or wrote rules at the same time.
const retryPortals = time.Minute

// usable returns why the kernel takes no rules of portals. Once it has taken them it is not asked again.
func (p *portals) usable() error {
	if p.tried.IsZero() || p.refusal != nil && time.Since(p.tried) >= retryPortals {
		p.refusal, p.tried = p.try(), time.Now()
	}
	return p.refusal
}
