// Package host is this machine's kernel. It joins the adapters, so that the kernel is
// read as one value and a plan is applied in one call.
//
// It decides nothing. Open fails if something is missing that every plan needs, and says
// how to get it.
package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/iptables"
	"github.com/svcproxy/svcproxy/kernel/link"
	"github.com/svcproxy/svcproxy/kernel/nft"
	"github.com/svcproxy/svcproxy/kernel/nl"
	"github.com/svcproxy/svcproxy/kernel/relay"
	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/kernel/sysctl"
)

// Options name the owned objects and the files for what the kernel does not remember.
type Options struct {
	Names    kernel.Names
	NodeName string
	Zone     string
	// StateDir has the values of sysctls and timeouts before svcproxy changed them, the
	// record and the names of the last run.
	StateDir string
	// Keeper repeats writes there that failed; nil: nothing does.
	Keeper *statefile.Keeper
	// Sysctls are the kernel parameters that a reading has, with dots. Restored are those
	// that may have been changed in any mode; nil: Sysctls. Only these are restored from
	// the file in StateDir.
	Sysctls, Restored []string
	// Needs are the adapters that the mode cannot do without; nil means all. Without
	// another one the kernel has no objects of its kinds.
	Needs []kernel.Adapter
	// Native: kernel/nft writes sets and chains, and neither kernel/ipset nor kernel/iptables.
	Native bool
	// KubeProxyTables: a reading also has the tables of kube-proxy's mode nftables, as if they were ours.
	KubeProxyTables bool
	// Dialer makes the netlink sockets, plain ones if it is nil.
	Dialer *nl.Dialer
	// Relay serves the virtual servers instead of IPVS, in mode userspace. The caller
	// closes it.
	Relay *relay.Relay
	// Tables are iptables that were opened before BecomeUser. If nil, Open opens them.
	Tables *Tables
}

// Tables are the iptables of one network namespace.
type Tables = iptables.Tables

// Prober asks other hosts about VIPs, and announces VIPs, on the links of the calling
// process's network namespace.
type Prober = link.Prober

// Kernel is the kernel of one network namespace. One goroutine at a time may
// use it.
type Kernel struct {
	o        Options
	ipvs     balancer
	sets     sets
	tables   tables
	other    *other
	limits   *limits
	links    *link.Links
	saved    *sysctl.Saved
	sysctls  *sysctl.Params
	flows    flows
	applied  applied
	adapters [kernel.NumAdapters]adapter
	noDevice bool
	record   *record
	// recorded is what the record had at the start. Readings have it until the first
	// change; after that the earlier reading knows more.
	recorded kernel.Record
}

// Open opens the kernel of the calling thread's network namespace. If the machine lacks
// something that is needed, the error wraps a *kernel.MissingError for each thing.
func Open(ctx context.Context, o Options) (*Kernel, error) {
	if o.Dialer == nil {
		o.Dialer = new(nl.Dialer)
	}
	k := &Kernel{o: o}
	var errs [6]error
	k.ipvs, errs[0] = openBalancer(&o)
	if o.Native {
		k.sets, k.tables, errs[1] = openNative(ctx, &o)
	} else {
		k.sets, errs[1] = openSets(&o)
		k.tables, errs[2] = openTables(ctx, &o)
	}
	k.other = &other{names: o.Names, dialer: o.Dialer, native: o.Native, kubeProxy: o.KubeProxyTables}
	k.limits = &limits{names: o.Names, dialer: o.Dialer, refused: nft.NewRefusals(o.Names)}
	if k.links, errs[3] = link.Open(o.Dialer); errs[3] == nil {
		k.noDevice, errs[3] = noDevice(&o, k.links.Available())
	}
	boot, err := sysctl.BootID()
	errs[4] = err
	k.saved = sysctl.OpenSaved(o.StateDir, boot)
	k.saved.Keeper = o.Keeper
	restored := o.Restored
	if restored == nil {
		restored = o.Sysctls
	}
	k.saved.Check(func(p kernel.Saved) error { return p.Check(restored) })
	k.sysctls = sysctl.Open(k.saved)
	k.record = openRecord(o.StateDir, boot, o.Keeper)
	k.recorded = k.record.last
	k.flows, errs[5] = openFlows(&o)
	if err := errors.Join(errs[:]...); err != nil {
		k.Close()
		return nil, err
	}
	k.openAdapters()
	return k, nil
}

// Subscribe reports changes of the node's addresses, links and default routes from now
// on, except those of our own device.
func (k *Kernel) Subscribe() (*link.Subscription, error) {
	s, err := link.Subscribe(k.o.Dialer, k.o.Names.Device)
	if err != nil {
		return nil, fmt.Errorf("subscribing to the node's addresses: %w", err)
	}
	return s, nil
}

// WatchRules reports processes that change rules of nftables, except our own, until ctx ends. It calls ready when it
// has begun. notify gets their names, "" for an unknown one. If our rules are in the legacy tables, which have no
// notifications, it returns at once.
func (k *Kernel) WatchRules(ctx context.Context, ready func(), notify func(by []string)) error {
	s, err := k.tables.Subscribe()
	if s == nil || err != nil {
		return err
	}
	ready()
	return s.Watch(ctx, func(writers []iptables.Writer) {
		by := make([]string, len(writers))
		for i, w := range writers {
			by[i] = w.String()
		}
		notify(by)
	})
}

// HoldConnections keeps open connections translated while another program has removed all rules: see
// iptables.Tables.Hold.
func (k *Kernel) HoldConnections() error { return k.tables.Hold() }

// HasIPv6 says whether the network namespace has IPv6.
func HasIPv6() bool { return nl.HasIPv6() }

// HasDevices says whether this kernel has dummy devices, to which VIPs can be bound.
func (k *Kernel) HasDevices() bool { return !k.noDevice }

// Try says whether iptables and the kernel take rules: see iptables.Tables.Try.
func (k *Kernel) Try(ctx context.Context, chains []kernel.Chain) error {
	return k.tables.Try(ctx, chains)
}

// CanWrite says whether a kernel parameter exists and can be written.
func (k *Kernel) CanWrite(sysctl string) bool { return k.sysctls.CanWrite(sysctl) }

// Scheduler makes the kernel load a scheduler. If there is none of that name the error
// is a *kernel.MissingError.
func (k *Kernel) Scheduler(name string) error {
	return schedulerError(name, k.ipvs.Scheduler(name))
}

// Warning returns why a state file could not be written, or nil.
func (k *Kernel) Warning() error { return errors.Join(k.saved.Warning(), k.record.warning()) }

// Remember writes down which virtual servers are owned, for a later process that finds
// the ownership set emptied. It does not wait for the disk.
func (k *Kernel) Remember(r kernel.Record) {
	k.recorded = kernel.Record{}
	k.record.keep(r)
}

// Native reports whether kernel/nft writes sets and chains.
func (k *Kernel) Native() bool { return k.o.Native }

// Tools names the iptables programs in use, for people, or "nftables".
func (k *Kernel) Tools() string {
	if k.o.Native {
		return "nftables"
	}
	var names []string
	for _, t := range k.tables.Tools() {
		names = append(names, t.String())
	}
	return strings.Join(names, ", ")
}

// Close releases the sockets.
func (k *Kernel) Close() error {
	var errs []error
	if k.record != nil {
		k.record.close()
	}
	if k.ipvs != nil {
		errs = append(errs, k.ipvs.Close())
	}
	if k.sets != nil {
		errs = append(errs, k.sets.Close())
	}
	if k.tables != nil {
		errs = append(errs, k.tables.Close())
	}
	if k.other != nil {
		errs = append(errs, k.other.Close())
	}
	if k.limits != nil {
		errs = append(errs, k.limits.Close())
	}
	if k.links != nil {
		errs = append(errs, k.links.Close())
	}
	if k.flows != nil {
		errs = append(errs, k.flows.Close())
	}
	return errors.Join(errs...)
}

// Names returns the names of owned objects.
func (k *Kernel) Names() kernel.Names { return k.o.Names }

// ForeignAddrs lists the addresses on the device with our name that the kernel
// says may be another program's.
func (k *Kernel) ForeignAddrs(ctx context.Context) ([]kernel.Addr, error) {
	o := kernel.Observed{Names: k.o.Names}
	var err error
	if o.Links, o.Addrs, _, err = k.readLinks(); err != nil || len(o.Addrs) == 0 || k.links.Made(k.o.Names) {
		return nil, err
	}
	if o.Sets, o.Entries, err = k.sets.Read(k.o.Names); err != nil {
		return nil, fmt.Errorf("reading ipsets: %w", err)
	}
	if err := k.readChains(ctx, &o); err != nil {
		return nil, err
	}
	o.Sort()
	return o.ForeignAddrs(), nil
}

// Node reads this machine: the part of a reading that the rules need.
func (k *Kernel) Node() (kernel.Node, error) {
	_, _, n, err := k.readLinks()
	return n, err
}

func (k *Kernel) readLinks() ([]kernel.Link, []kernel.Addr, kernel.Node, error) {
	links, addrs, n, err := k.links.Read(k.o.Names)
	if err != nil {
		return nil, nil, kernel.Node{}, fmt.Errorf("reading links and addresses: %w", err)
	}
	n.Name, n.Zone = k.o.NodeName, k.o.Zone
	return links, addrs, n, nil
}

// Read reads the owned objects, all of IPVS, and the node.
func (k *Kernel) Read(ctx context.Context) (kernel.Observed, error) {
	o := kernel.Observed{Names: k.o.Names, Fresh: true, Native: k.o.Native}
	var err error
	if o.Sets, o.Entries, err = k.sets.Read(k.o.Names); err != nil {
		return kernel.Observed{}, fmt.Errorf("reading ipsets: %w", err)
	}
	if err := k.limits.read(&o); err != nil {
		return kernel.Observed{}, fmt.Errorf("reading limits: %w", err)
	}
	if err := k.readChains(ctx, &o); err != nil {
		return kernel.Observed{}, err
	}
	k.links.Guarded = o.Guards // which looks at sets and chains
	if err := k.readVIPs(&o); err != nil {
		return kernel.Observed{}, err
	}
	k.links.Guarded = nil
	if err := k.readFew(&o); err != nil {
		return kernel.Observed{}, err
	}
	// IPVS comes last, so that Diff sees the latest connections.
	table, err := k.ipvs.Read()
	if err != nil {
		return kernel.Observed{}, fmt.Errorf("reading IPVS: %w", err)
	}
	o.Virtuals, o.Reals, o.Conns = table.Virtuals, kernel.RealsOf(table.Reals), table.Conns
	if b, ok := k.ipvs.(*relayed); ok {
		o.Relayed, o.InIPVS = true, b.inIPVS()
	}
	o.Sort()
	o.Record = k.recorded
	return o, nil
}

// readVIPs reads what kernel/link knows: links, addresses, routes, neighbours and the
// node.
func (k *Kernel) readVIPs(o *kernel.Observed) (err error) {
	if o.Links, o.Addrs, o.Node, err = k.readLinks(); err != nil {
		return err
	}
	if o.Routes, o.Announcements, err = k.links.ReadRoutes(); err != nil {
		return fmt.Errorf("reading routes: %w", err)
	}
	if o.Neighbors, o.Answered, err = k.links.ReadNeighbors(); err != nil {
		return fmt.Errorf("reading proxy neighbours: %w", err)
	}
	return nil
}

func (k *Kernel) readChains(ctx context.Context, o *kernel.Observed) (err error) {
	if o.Chains, err = k.tables.Read(ctx, k.o.Names); err != nil {
		return fmt.Errorf("reading iptables: %w", err)
	}
	if err = k.limits.readChains(o); err != nil {
		return fmt.Errorf("reading limits: %w", err)
	}
	if native, ok := k.tables.(nativeTables); ok {
		if o.Flowtables, err = native.table.ReadFlowtables(); err != nil {
			return fmt.Errorf("reading flowtables: %w", err)
		}
	}
	o.Others, err = k.tables.Others(ctx, k.o.Names)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("reading iptables: %w", err)
	}
	if err != nil { // all else can be synced
		o.Unseen = strings.Join(strings.Fields(err.Error()), " ")
	}
	return k.other.read(o)
}

// readFew reads the other kinds with few objects. Which sysctls it reads depends on the
// reading's node.
func (k *Kernel) readFew(o *kernel.Observed) (err error) {
	if o.Firewall, err = k.tables.Firewall(k.o.Names); err != nil {
		return fmt.Errorf("reading the host's firewall: %w", err)
	}
	o.Hidden, o.Saved = k.tables.Hidden(), k.saved.All()
	if o.Sysctls, err = k.sysctls.Read(k.sysctlNames(*o)); err != nil {
		return fmt.Errorf("reading sysctls: %w", err)
	}
	if o.Timeouts, err = k.ipvs.Timeouts(); err != nil {
		return fmt.Errorf("reading IPVS: %w", err)
	}
	if o.Daemons, err = k.ipvs.SyncDaemons(); err != nil {
		return fmt.Errorf("reading IPVS: %w", err)
	}
	return nil
}

// sysctlNames lists the parameters to read: those asked for, those that were changed,
// and those of the links that may answer for IPv6 VIPs or hear router advertisements.
func (k *Kernel) sysctlNames(o kernel.Observed) []string {
	names := slices.Clone(k.o.Sysctls)
	for _, s := range o.Saved {
		if !kernel.IsTimeout(s.Name) && !kernel.IsSyncDaemon(s.Name) {
			names = append(names, s.Name)
		}
	}
	for _, a := range o.Node.Addrs {
		if a.Prefix.Addr().Is6() {
			names = append(names, kernel.ProxyNDP(a.Link))
		}
	}
	for _, link := range o.Node.Advertised {
		names = append(names, kernel.AcceptRA(link))
	}
	return names
}

// Conns reads the connections of some real servers. Those that do not exist have none.
func (k *Kernel) Conns(_ context.Context, keys []kernel.RealKey) ([]kernel.Conns, error) {
	var virtuals []kernel.VirtualKey
	for i, r := range keys {
		if i == 0 || keys[i-1].Virtual != r.Virtual {
			virtuals = append(virtuals, r.Virtual)
		}
	}
	reals, found, err := k.ipvs.Reals(virtuals)
	if err != nil {
		return nil, fmt.Errorf("reading IPVS: %w", err)
	}
	at := make(map[kernel.RealKey]kernel.Conns, len(reals))
	for i, r := range reals {
		at[r.Key] = found[i]
	}
	conns := make([]kernel.Conns, len(keys))
	for i, r := range keys {
		conns[i] = at[r]
	}
	return conns, nil
}
