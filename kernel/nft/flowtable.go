package nft

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// flowtable is the name of the one that a table of ours has.
const flowtable = "flows"

// Constants of linux/netfilter/nf_tables.h that package unix lacks.
const (
	flowtableTable  = 1 // NFTA_FLOWTABLE_TABLE
	flowtableName   = 2 // NFTA_FLOWTABLE_NAME
	flowtableHook   = 3 // NFTA_FLOWTABLE_HOOK
	flowtableFlags  = 7 // NFTA_FLOWTABLE_FLAGS
	flowtableNumber = 1 // NFTA_FLOWTABLE_HOOK_NUM
	flowtablePrio   = 2 // NFTA_FLOWTABLE_HOOK_PRIORITY
	flowtableLinks  = 3 // NFTA_FLOWTABLE_HOOK_DEVS
	linkName        = 1 // NFTA_DEVICE_NAME
	counted         = 2 // NFT_FLOWTABLE_COUNTER
	flowName        = 1 // NFTA_FLOW_TABLE_NAME
	ingress         = 0 // NF_NETDEV_INGRESS
)

// putFlowtable adds the message that creates a flowtable or adds links to it, or the one that takes links from it, or
// without any removes it. Its connections are counted by connection tracking, as all others.
func putFlowtable(b *nl.Batch, typ uint16, table string, f kernel.Family, links []string) {
	create := typ == unix.NFT_MSG_NEWFLOWTABLE
	flags := uint16(0)
	if create {
		flags = unix.NLM_F_CREATE
	}
	begin(b, typ, flags, f)
	b.Text(flowtableTable, table)
	b.Text(flowtableName, flowtable)
	if create || len(links) > 0 {
		hook := b.Nest(flowtableHook)
		b.U32BE(flowtableNumber, ingress)
		b.U32BE(flowtablePrio, 0)
		if len(links) > 0 {
			list := b.Nest(flowtableLinks)
			for _, name := range links {
				b.Text(linkName, name)
			}
			b.EndNest(list)
		}
		b.EndNest(hook)
	}
	if create {
		b.U32BE(flowtableFlags, counted)
	}
	b.End()
}

// writeFlowtables carries out ops that add or change flowtables. Each link is a transaction of its own. If a link is
// gone by now, Linux 6.12 leaves it out; Linux 7.3 keeps its name, for a link that may come with it. If the kernel
// refuses a link, that is the error of its op alone.
func (t *Table) writeFlowtables(ops []kernel.Op) []error {
	have, err := t.ReadFlowtables()
	if err != nil {
		return slices.Repeat([]error{err}, len(ops))
	}
	errs := make([]error, len(ops))
	for i, o := range ops {
		is := o.Object.(kernel.Flowtable)
		write := func(typ uint16, link string) {
			if err := t.writeLinks(typ, is.Family, link); err != nil && !errors.Is(err, unix.ENOENT) {
				errs[i] = fmt.Errorf("link %s: %w", link, err)
			}
		}
		if errs[i] = t.writeLinks(unix.NFT_MSG_NEWFLOWTABLE, is.Family); errs[i] != nil {
			continue
		}
		for _, was := range have {
			if was.Family == is.Family {
				for _, link := range without(was.Each(), is.Each()) {
					write(unix.NFT_MSG_DELFLOWTABLE, link)
				}
			}
		}
		for _, link := range is.Each() {
			write(unix.NFT_MSG_NEWFLOWTABLE, link)
		}
	}
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return nil
	}
	return errs
}

// writeLinks creates a flowtable, or gives links to it or takes them away.
func (t *Table) writeLinks(typ uint16, f kernel.Family, links ...string) error {
	b := new(nl.Batch)
	limit(b, unix.NFNL_MSG_BATCH_BEGIN)
	putTable(b, t.table, f)
	putFlowtable(b, typ, t.table, f, links)
	limit(b, unix.NFNL_MSG_BATCH_END)
	err := t.conn.Commit(b, nil)
	if refused := new(nl.BatchError); err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", kernel.ErrUnknownOutcome, err)
	}
	return err
}

// writesFlowtable reports whether an op adds a flowtable or changes its links.
func writesFlowtable(o kernel.Op) bool {
	return o.Verb != kernel.Remove && o.Object.Kind() == kernel.KindFlowtable
}

// ReadFlowtables returns our flowtables. No reading of them is kept: a link that goes leaves them without a change of
// the rules.
func (t *Table) ReadFlowtables() (all []kernel.Flowtable, err error) {
	for _, f := range families {
		start := len(all)
		ask := func(b *nl.Batch) { b.Text(flowtableTable, t.table) }
		restart := func() { all = all[:start] }
		err = t.dump(unix.NFT_MSG_GETFLOWTABLE, f, ask, restart, func(a nl.Attrs) error {
			table, name, links, err := flowtableOf(a)
			if table == t.table && name == flowtable {
				slices.Sort(links)
				all = append(all, kernel.Flowtable{Family: f, Links: strings.Join(links, ",")})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func flowtableOf(a nl.Attrs) (table, name string, links []string, err error) {
	for a.Next() {
		switch a.Type() {
		case flowtableTable:
			table = a.Text()
		case flowtableName:
			name = a.Text()
		case flowtableHook:
			hook := a.Nested()
			for hook.Next() {
				if hook.Type() != flowtableLinks {
					continue
				}
				list := hook.Nested()
				for list.Next() {
					links = append(links, list.Text())
				}
				err = cmp.Or(err, list.Err())
			}
			err = cmp.Or(err, hook.Err())
		}
	}
	return table, name, links, cmp.Or(err, a.Err())
}

func flowtableText(o kernel.Op, t kernel.Flowtable, n kernel.Names) string {
	at := "flowtable " + place(t.Family, n.Table(), flowtable)
	if o.Verb == kernel.Remove {
		return "delete " + at
	}
	text, list := "", func(links []string) string { return "devices = { " + strings.Join(links, ", ") + " }; " }
	want := t.Each()
	if was, ok := o.Was.(kernel.Flowtable); ok {
		if gone := without(was.Each(), want); len(gone) > 0 {
			text = "delete " + at + " { " + list(gone) + "}\n"
		}
	}
	text += "add " + at + " { hook ingress priority 0; "
	if len(want) > 0 {
		text += list(want)
	}
	return text + "counter; }"
}

func without(all, some []string) []string {
	return slices.DeleteFunc(all, func(l string) bool { return slices.Contains(some, l) })
}
