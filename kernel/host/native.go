package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/ipset"
	"github.com/svcproxy/svcproxy/kernel/iptables"
	"github.com/svcproxy/svcproxy/kernel/nft"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// nativeSets are the sets of kernel/nft.
type nativeSets struct{ *nft.Table }

func (s nativeSets) Read(kernel.Names) ([]kernel.Set, kernel.Entries, error) { return s.ReadSets() }

func (s nativeSets) Verify(_ kernel.Names, known *kernel.State, has func(set string) bool) (bool, error) {
	return s.VerifySets(known, has)
}

// Close does nothing: nativeTables closes the table.
func (nativeSets) Close() error { return nil }

// nativeTables are the chains of kernel/nft, with the firewalls of other programs and what is ours in iptables, as
// kernel/iptables reads them.
type nativeTables struct {
	*iptables.Tables
	table *nft.Table
}

func (t nativeTables) Read(context.Context, kernel.Names) ([]kernel.Chain, error) {
	return t.table.ReadChains()
}

func (t nativeTables) Try(_ context.Context, chains []kernel.Chain) error { return t.table.Try(chains) }

func (t nativeTables) Apply(_ context.Context, ops []kernel.Op) []error { return t.table.Apply(ops) }

func (t nativeTables) Close() error { return errors.Join(t.Tables.Close(), t.table.Close()) }

// openNative opens kernel/nft for sets and chains.
func openNative(ctx context.Context, o *Options) (sets, tables, error) {
	t, err := nft.Open(o.Dialer, o.Names)
	if err != nil {
		return nil, nil, err
	}
	others, err := iptables.Open(ctx, iptables.Options{Dialer: o.Dialer, Unwritten: true})
	if err != nil {
		t.Close()
		return nil, nil, err
	}
	return nativeSets{t}, nativeTables{others, t}, nil
}

// Text is the text of a plan for this kernel.
func (k *Kernel) Text(p kernel.Plan) string {
	return Text(p, k.o.Names, k.o.Native)
}

// Text is the text of a plan, with what is in tables of kernel/nft in the words of nft. native: all sets and chains
// are.
func Text(p kernel.Plan, names kernel.Names, native bool) string {
	return p.Text(func(b *strings.Builder, o kernel.Op) {
		written := names.InLimits(o.Object)
		switch o.Object.Kind() {
		case kernel.KindSet, kernel.KindEntry, kernel.KindChain, kernel.KindFlowtable:
			written = written || native
		}
		if !written {
			fmt.Fprintf(b, "%s\n", o)
			return
		}
		text := strings.TrimSuffix(nft.Text(o, names), "\n")
		fmt.Fprintf(b, "%s %s\n", o.Verb, strings.ReplaceAll(text, "\n", "\n    "))
	})
}

// other is what is ours in the back end that is not written, except chains of iptables: sets of ipset, or tables
// of kernel/nft. It asks the kernel for nothing whose module is not loaded, since that would load it.
type other struct {
	names  kernel.Names
	dialer *nl.Dialer
	native bool // the tables of kernel/nft are written
	// kubeProxy: see Options.KubeProxyTables.
	kubeProxy bool
	sets      *ipset.Sets
	table     *nft.Table
}

// read adds it to a reading that has the other chains.
func (t *other) read(o *kernel.Observed) (err error) {
	if t.native {
		err = t.readSets(o)
	} else {
		err = t.readTable(o)
	}
	if err == nil && t.kubeProxy {
		err = t.readKubeProxy(o)
	}
	if err != nil {
		return fmt.Errorf("looking for objects in the other back end: %w", err)
	}
	return nil
}

func (t *other) readSets(o *kernel.Observed) (err error) {
	if t.sets == nil {
		if !moduleLoaded("ip_set") {
			return nil
		}
		if t.sets, err = ipset.Open(t.dialer); err != nil {
			return err
		}
	}
	if o.OtherSets, o.OtherEntries, err = t.sets.Read(t.names); err != nil {
		return err
	}
	if slices.ContainsFunc(o.Others, func(c kernel.OtherChain) bool { return c.Stuck }) {
		return nil // their rules use the sets
	}
	for _, s := range o.OtherSets {
		o.Others = append(o.Others, kernel.OtherSet(s))
	}
	return nil
}

// openTable reports whether there may be tables.
func (t *other) openTable() (there bool, err error) {
	if t.table == nil && moduleLoaded("nf_tables") {
		var missing *kernel.MissingError
		if t.table, err = nft.Open(t.dialer, t.names); errors.As(err, &missing) {
			t.table, err = nil, nil
		}
	}
	return t.table != nil, err
}

// kubeProxyTable is the table of kube-proxy's mode nftables in each family.
const kubeProxyTable = "kube-proxy"

func (t *other) readKubeProxy(o *kernel.Observed) error {
	if there, err := t.openTable(); !there {
		return err
	}
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		there, err := t.table.Has(f, kubeProxyTable)
		if err != nil {
			return err
		}
		if there {
			o.Others = append(o.Others, kernel.OtherTable(f, kubeProxyTable))
		}
	}
	return nil
}

func (t *other) readTable(o *kernel.Observed) error {
	if there, err := t.openTable(); !there {
		return err
	}
	families, err := t.table.Families()
	if err != nil || len(families) == 0 {
		return err
	}
	for _, f := range families {
		o.Others = append(o.Others, kernel.OtherTable(f, t.names.Table()))
	}
	o.OtherSets, o.OtherEntries, err = t.table.ReadSets()
	return err
}

// remove removes such an object.
func (t *other) remove(c kernel.OtherChain) error {
	switch {
	case c.Backend == kernel.BackendIPSet && t.sets != nil:
		s := kernel.Set{Name: c.Name, Family: c.Family}
		return errors.Join(t.sets.Apply([]kernel.Op{{Verb: kernel.Remove, Object: s, Was: s}})...)
	case c.Backend == kernel.BackendNative && t.table != nil && c.Name == kubeProxyTable:
		return t.table.RemoveWhole(c.Family, c.Name)
	case c.Backend == kernel.BackendNative && t.table != nil:
		return t.table.Remove(c.Family)
	}
	return fmt.Errorf("%s is not in the other back end", c)
}

func (t *other) Close() error {
	var errs []error
	if t.sets != nil {
		errs = append(errs, t.sets.Close())
	}
	if t.table != nil {
		errs = append(errs, t.table.Close())
	}
	return errors.Join(errs...)
}

// moduleLoaded reports whether the kernel has a module loaded, or has no loadable modules at all: then it is built in
// or missing.
func moduleLoaded(name string) bool {
	if _, err := os.Stat("/sys/module/" + name); err == nil {
		return true
	}
	_, err := os.Stat("/proc/modules")
	return errors.Is(err, fs.ErrNotExist)
}

// HasModules reports whether the kernel has modules loaded or built in, as far as that can be seen.
func HasModules(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !moduleLoaded(name) })
}

// applyOthers removes objects of the back end that is not written: first chains, then the sets that their rules use.
func (k *Kernel) applyOthers(ctx context.Context, ops []kernel.Op) []error {
	var chains []kernel.Op
	var at []int
	errs := make([]error, len(ops))
	for i, op := range ops {
		if c, _ := op.Object.(kernel.OtherChain); c.Backend == kernel.BackendLegacy || c.Backend == kernel.BackendNFT {
			chains, at = append(chains, op), append(at, i)
		}
	}
	var failed error
	if len(chains) > 0 {
		for i, err := range k.tables.ApplyOthers(ctx, chains) {
			if errs[at[i]] = err; err != nil {
				failed = err
			}
		}
	}
	for i, op := range ops {
		c, _ := op.Object.(kernel.OtherChain)
		switch {
		case slices.Contains(at, i):
		case failed != nil:
			errs[i] = fmt.Errorf("not carried out: %w", failed)
		default:
			errs[i] = k.other.remove(c)
		}
	}
	return errs
}
