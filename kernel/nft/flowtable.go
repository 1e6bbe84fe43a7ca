package nft

import (
	"cmp"
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

// writeFlowtable makes a flowtable as an op wants it. Links that are gone have left it.
func (x *transaction) writeFlowtable(i int) {
	t := x.ops[i].Object.(kernel.Flowtable)
	want := strings.Split(t.Links, ",")
	more := slices.DeleteFunc(slices.Clone(x.linked[t.Family]), func(l string) bool { return slices.Contains(want, l) })
	if len(more) > 0 {
		putFlowtable(&x.batch, unix.NFT_MSG_DELFLOWTABLE, x.table, t.Family, more)
		x.of = append(x.of, span{op: i})
	}
	putFlowtable(&x.batch, unix.NFT_MSG_NEWFLOWTABLE, x.table, t.Family, want)
	x.of = append(x.of, span{op: i})
}

// linked returns the links of flowtables, if an op is about one.
func (t *Table) linked(ops []kernel.Op) (map[kernel.Family][]string, error) {
	isOne := func(o kernel.Op) bool { return o.Object.Kind() == kernel.KindFlowtable }
	if !slices.ContainsFunc(ops, isOne) {
		return nil, nil
	}
	have, err := t.ReadFlowtables()
	links := make(map[kernel.Family][]string)
	for _, x := range have {
		if x.Links != "" {
			links[x.Family] = strings.Split(x.Links, ",")
		}
	}
	return links, err
}

// ReadFlowtables returns our flowtables. No reading of them is kept: a link that goes leaves them without a change of
// the rules.
func (t *Table) ReadFlowtables() (all []kernel.Flowtable, err error) {
	for _, f := range families {
		start := len(all)
		ask := func(b *nl.Batch) { b.Text(flowtableTable, t.names.Table()) }
		restart := func() { all = all[:start] }
		err = t.dump(unix.NFT_MSG_GETFLOWTABLE, f, ask, restart, func(a nl.Attrs) error {
			table, name, links, err := flowtableOf(a)
			if table == t.names.Table() && name == flowtable {
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
	at := "flowtable " + place(t.Family, n, flowtable)
	if o.Verb == kernel.Remove {
		return "delete " + at
	}
	text := ""
	if was, ok := o.Was.(kernel.Flowtable); ok {
		want := strings.Split(t.Links, ",")
		gone := slices.DeleteFunc(strings.Split(was.Links, ","), func(l string) bool { return slices.Contains(want, l) })
		if len(gone) > 0 {
			text = "delete " + at + " { devices = { " + strings.Join(gone, ", ") + " }; }\n"
		}
	}
	return text + "add " + at + " { hook ingress priority 0; devices = { " + strings.ReplaceAll(t.Links, ",", ", ") +
		" }; counter; }"
}
