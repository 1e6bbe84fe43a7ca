package host

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/ipvs"
	"github.com/svcproxy/svcproxy/kernel/nft"
	"github.com/svcproxy/svcproxy/kernel/nl"
	"github.com/svcproxy/svcproxy/kernel/relay"
	"github.com/svcproxy/svcproxy/kernel/sysctl"
)

// Counters reads the kernel's counters. It has its own sockets and files, so any
// goroutine may use it while the loop runs.
type Counters struct {
	mu      sync.Mutex
	dialer  *nl.Dialer
	ipvs    counted
	slots   *nft.Counts   // nil without rules of kernel/nft
	refused *nft.Refusals // nil without a kernel whose limits it counts
	params  *sysctl.Params
}

// counted are the counters of IPVS, or none.
type counted interface {
	Read() (kernel.Counters, error)
	Virtuals() ([]kernel.VirtualCounters, error)
	Reals([]kernel.VirtualKey) ([]kernel.RealTraffic, error)
	Stats() ipvs.Stats
	Close() error
}

// OpenCounters opens the counters of the calling thread's network namespace. A nil
// dialer makes plain sockets. Without IPVS there are no counters but those of connection
// tracking. With a relay the counters are the relay's, not those of IPVS. With the kernel that
// is written there are also those of slots and limits of nftables.
func OpenCounters(d *nl.Dialer, r *relay.Relay, k *Kernel) (*Counters, error) {
	if d == nil {
		d = new(nl.Dialer)
	}
	counts := counted(noCounters{})
	switch {
	case r != nil:
		counts = relayCounters{r}
	case loaded():
		c, err := ipvs.OpenCounters(d)
		if err != nil {
			return nil, err
		}
		counts = c
	}
	all := &Counters{dialer: d, ipvs: counts, params: sysctl.Open(sysctl.OpenSaved("", ""))}
	if k == nil {
		return all, nil
	}
	all.refused = k.limits.refused
	if t, ok := k.tables.(nativeTables); ok {
		var err error
		if all.slots, err = t.table.Counts(d); err != nil {
			return nil, errors.Join(err, counts.Close())
		}
	}
	return all, nil
}

// Close releases sockets and files.
func (c *Counters) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := []error{c.ipvs.Close()}
	if c.slots != nil {
		errs = append(errs, c.slots.Close())
	}
	if c.refused != nil {
		errs = append(errs, c.refused.Close())
	}
	return errors.Join(errs...)
}

const (
	flowCount = "net.netfilter.nf_conntrack_count"
	flowMax   = "net.netfilter.nf_conntrack_max"
)

// Read reads the counters with one netlink dump, one for each family in mode nftables, whose
// size grows with the table, and one for each family of the rules of limits.
// Concurrent callers wait for each other.
func (c *Counters) Read(ctx context.Context) (kernel.Counters, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return kernel.Counters{}, err
	}
	r, err := c.ipvs.Read()
	if err != nil {
		return kernel.Counters{}, fmt.Errorf("reading IPVS: %w", err)
	}
	if c.slots != nil {
		if r.Chosen, err = c.slots.Read(); err != nil {
			return kernel.Counters{}, err
		}
	}
	if r.Refused, err = c.refusals(); err != nil {
		return kernel.Counters{}, err
	}
	params, err := c.params.Read([]string{flowCount, flowMax})
	if err != nil {
		return kernel.Counters{}, err
	}
	for _, p := range params {
		to := &r.Flows
		if p.Name == flowMax {
			to = &r.MaxFlows
		}
		n, bad := strconv.ParseUint(p.Value, 10, 64)
		*to, err = n, errors.Join(err, bad)
	}
	return r, err
}

// Refused reads what the limits of services refused, as Read does.
func (c *Counters) Refused() (map[string]kernel.Refusals, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusals()
}

// refusals asks the kernel for nothing before it has nf_tables loaded.
func (c *Counters) refusals() (map[string]kernel.Refusals, error) {
	if c.refused == nil || !moduleLoaded("nf_tables") {
		return nil, nil
	}
	all, err := c.refused.Read(c.dialer)
	if errors.As(err, new(*kernel.MissingError)) {
		return nil, nil
	}
	return all, err
}

// Virtuals reads the traffic of all virtual servers, sorted: much less than Read where they have many real servers.
func (c *Counters) Virtuals(ctx context.Context) ([]kernel.VirtualCounters, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all, err := c.ipvs.Virtuals()
	if err != nil {
		return nil, fmt.Errorf("reading IPVS: %w", err)
	}
	return all, nil
}

// Reals reads the traffic of the real servers of some virtual servers, sorted by virtual
// server as given and then by address. It makes one request for each virtual server, so
// it is not for the whole table.
func (c *Counters) Reals(ctx context.Context, virtuals []kernel.VirtualKey) ([]kernel.RealTraffic, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.ipvs.Reals(virtuals)
}

// Stats may be called at any time from any goroutine.
func (c *Counters) Stats() nl.Stats { return c.ipvs.Stats().Stats }
