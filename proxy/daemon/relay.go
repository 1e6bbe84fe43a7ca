package daemon

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/relay"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/userspace"
)

// relayGrace is how long the relay's connections may go on when the process is to end. New clients wait in the
// listeners meanwhile, which systemd keeps for the next process.
const relayGrace = time.Second

// newRelay makes the relay if the mode is userspace, with the listeners of the last process.
func (s *Setup) newRelay(m mode.Mode) error {
	if m.Name() != (userspace.Mode{}).Name() || !s.Writes {
		return nil
	}
	r, err := relay.New(relay.Options{UDPIdle: s.Config.UDPIdleTimeout, Inherited: s.inherited})
	if err != nil {
		return err
	}
	s.relay, s.inherited = r, nil
	return nil
}

// listeners are those of the relay, and which of them systemd keeps. Only the loop changes it.
type listeners struct {
	relay *relay.Relay
	store fileStore
	log   *slog.Logger
	kept  map[kernel.VirtualKey]netip.AddrPort // where each listens
	whole bool                                 // everything has been served once
}

// newListeners returns the listeners of a relay that has none but those it inherited, which systemd has.
func newListeners(r *relay.Relay, store fileStore, log *slog.Logger) *listeners {
	return &listeners{relay: r, store: store, log: log, kept: r.Listening()}
}

// follow calls synced after each sync, before what else follows the loop.
func (l *listeners) follow(p *proxy.Proxy) {
	if l == nil {
		return
	}
	shown := p.OnSync
	p.OnSync = func(now *proxy.Snapshot) {
		l.synced(now)
		shown(now)
	}
}

// text is the virtual and real servers.
func (l *listeners) text() string {
	r := l.relay.Read()
	return kernel.State{Virtuals: r.Virtuals, Reals: kernel.RealsOf(r.Reals)}.String()
}

// synced gives new listeners to systemd and takes back those that were closed.
func (l *listeners) synced(now *proxy.Snapshot) {
	if !l.whole && now.Report.Err == nil && now.Report.Left == 0 && len(now.Report.Waiting) == 0 {
		l.whole = true
		l.relay.CloseUnused()
	}
	listening := l.relay.Listening()
	for k, at := range l.kept {
		if to, ok := listening[k]; !ok || to != at {
			delete(l.kept, k)
			l.failed(l.store.forget(relay.FileName(k)))
		}
	}
	for k, at := range listening {
		if _, ok := l.kept[k]; ok {
			continue
		}
		f, err := l.relay.File(k)
		if f == nil || err != nil {
			l.failed(err)
			continue
		}
		if err = l.store.keep(f); err == nil {
			l.kept[k] = at // else the next sync tries again
		}
		l.failed(err)
		f.Close()
	}
}

func (l *listeners) failed(err error) {
	if err != nil {
		l.log.Warn("cannot store a listener in systemd: a restart will refuse connections", "err", err)
	}
}

// end closes the relay. Without systemd new clients are refused from then on, so it does not wait.
func (l *listeners) end() {
	grace := relayGrace
	if l.store == "" {
		grace = 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	l.relay.Shutdown(ctx)
}

// dropInherited closes listeners that another mode has left with systemd.
func dropInherited(all []*os.File, store fileStore, log *slog.Logger) {
	for _, f := range all {
		if _, ours := relay.ParseFileName(f.Name()); ours {
			if err := store.forget(f.Name()); err != nil {
				log.Warn("cannot remove a listener of mode userspace from systemd", "err", err)
			}
		}
	}
	if r, err := relay.New(relay.Options{Inherited: all}); err == nil {
		r.CloseUnused()
		r.Close()
	}
}
