package relay

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// Options are the settings of a Relay. The zero value is usable.
type Options struct {
	// UDPIdle is how long a flow over UDP is kept without a datagram; 0 is 250 ms, kube-proxy's
	// udpIdleTimeout.
	UDPIdle time.Duration
	// Linger is how long TCP connections go on after their virtual server was removed; 0 ends
	// them at once, as IPVS does.
	Linger time.Duration
	// MaxFiles is how many file descriptors the process may have; 0 is RLIMIT_NOFILE.
	MaxFiles int
	// Inherited are listeners that an earlier process left with File. The relay takes those
	// with names of its own, and closes them. A virtual server that is added takes its listener
	// from here, if the address is the right one.
	Inherited []*os.File
}

// Relay is the virtual servers of this process. Its methods may be called from several goroutines.
type Relay struct {
	o       Options
	limits  limits
	dialer  net.Dialer
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // all goroutines

	mu        sync.Mutex
	closed    bool
	services  map[kernel.VirtualKey]*service
	leaving   map[*service]*time.Timer // removed, with connections that linger
	portals   map[kernel.VirtualKey]netip.AddrPort
	inherited map[kernel.VirtualKey]socket // listeners without a virtual server yet
	reserved  map[kernel.VirtualKey]bool   // those of inherited that this process opened

	files files
	pipes *pipes
	stats stats
	total traffic
}

// limits are those that tests lower.
type limits struct {
	dial      []time.Duration // for each try of a connection
	halfOpen  time.Duration   // without data, once a side has ended
	flows     int             // of a virtual server
	templates int             // of a virtual server
	now       func() time.Time
}

// defaultLimits has kube-proxy's time limits for dialing.
var defaultLimits = limits{
	dial:      []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second},
	halfOpen:  5 * time.Minute,
	flows:     maxFlows,
	templates: maxTemplates,
	now:       time.Now,
}

const defaultUDPIdle = 250 * time.Millisecond

// keepAlive finds a peer that is gone after 30 s + 3 * 10 s without an answer.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// New makes a relay without virtual servers.
func New(o Options) (*Relay, error) {
	if o.UDPIdle == 0 {
		o.UDPIdle = defaultUDPIdle
	}
	if o.MaxFiles == 0 {
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			return nil, fmt.Errorf("reading the limit of open files: %w", err)
		}
		o.MaxFiles = int(min(limit.Cur, 1<<30))
	}
	r := &Relay{
		o: o, limits: defaultLimits, dialer: net.Dialer{KeepAliveConfig: keepAlive},
		services: map[kernel.VirtualKey]*service{}, leaving: map[*service]*time.Timer{},
		portals: map[kernel.VirtualKey]netip.AddrPort{}, reserved: map[kernel.VirtualKey]bool{},
	}
	r.dialer.SetMultipathTCP(false)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	pipes := maxPipes(o.MaxFiles)
	r.pipes = newPipes(pipes, func() { r.short(NoFiles) })
	r.files.free.Store(int64(o.MaxFiles - 2*pipes - keptFiles(o.MaxFiles)))
	r.inherit(o.Inherited)
	return r, nil
}

// Shutdown takes no new connections, waits until those over TCP have ended or ctx is done, and then
// closes everything. Listeners that File has given away stay open: clients that connect to them wait
// for the next process.
func (r *Relay) Shutdown(ctx context.Context) {
	r.mu.Lock()
	r.closed = true
	for _, s := range r.services {
		if s.key.Proto == kernel.TCP {
			s.listener.close()
		}
	}
	r.mu.Unlock()
	for wait := time.NewTicker(20 * time.Millisecond); r.stats.streams.Load() > 0 && ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
	}
	r.Close()
}

// Close closes all listeners, resets all connections and waits until no goroutine is left.
// Listeners that File has given away stay open.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	r.cancel()
	for k, s := range r.services {
		delete(r.services, k)
		s.listener.close()
		s.cut()
	}
	for s, timer := range r.leaving {
		timer.Stop()
		s.cut()
	}
	clear(r.leaving)
	r.closeInherited()
	r.mu.Unlock()
	r.running.Wait()
	r.pipes.close()
}

// at returns where a virtual server listens.
func (r *Relay) at(k kernel.VirtualKey) netip.AddrPort {
	if at, ok := r.portals[k]; ok {
		return at
	}
	return k.AddrPort()
}

// Listening returns where each virtual server listens. Inherited listeners that no virtual server
// has taken yet are included, so that their ports can be kept.
func (r *Relay) Listening() map[kernel.VirtualKey]netip.AddrPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[kernel.VirtualKey]netip.AddrPort, len(r.services)+len(r.inherited))
	for k, s := range r.inherited {
		all[k] = s.addr()
	}
	for k, s := range r.services {
		all[k] = s.listener.addr()
	}
	return all
}
