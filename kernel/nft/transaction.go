package nft

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// maxElements is the longest list of elements in one message, in bytes: the length of an attribute has 16 bits. One
// that is refused is named by where it is in the message.
const maxElements = 48 << 10

// typicalElement is in bytes: an address, a protocol, a port and a slot of IPv4 lead to an endpoint, or to a chain.
const typicalElement = 64

// transaction is the messages of one commit, and the ops that they are for.
type transaction struct {
	names   kernel.Names
	table   string
	limits  bool // it is the table of limits
	ops     []kernel.Op
	batch   nl.Batch
	emptied []kernel.Family // whose tables lose all that they have

	of       []span  // the ops of each message
	elements []int32 // the ops of entries, and where in their messages they begin
	offsets  []int32
	ids      uint32 // of new sets
	echoes   bool   // the kernel is to tell what it removes

	bad int // the op that cannot be written
	err error
}

// span is the ops of a message: op, -1 for none, or n of elements.
type span struct{ op, first, n int }

// refuse gives an error to ops, and kernel.ErrNotDone to all others. Without any it is the error of all.
func (x *transaction) refuse(blamed []int32, err error) []error {
	errs, other := make([]error, len(x.ops)), err
	if len(blamed) > 0 {
		first := x.ops[blamed[0]]
		other = fmt.Errorf("%w: %s %s: %w", kernel.ErrNotDone, first.Verb, first.Object, err)
	}
	for i := range errs {
		errs[i] = other
	}
	for _, i := range blamed {
		errs[i] = err
	}
	return errs
}

// blamed returns the ops that a refused message is for. Linux before 5.19 does not say which element of a message it
// refuses.
func (x *transaction) blamed(m nl.MessageError) []int32 {
	s := x.of[m.Index]
	switch {
	case s.n == 0 && s.op < 0:
		return nil
	case s.n == 0:
		return []int32{int32(s.op)}
	}
	all := x.elements[s.first : s.first+s.n]
	var refused *nl.KernelError
	if errors.As(m.Err, &refused) && refused.Offset > 0 {
		i, found := slices.BinarySearch(x.offsets[s.first:s.first+s.n], int32(refused.Offset))
		if found {
			return all[i : i+1]
		}
	}
	return all
}

func (x *transaction) begin(typ, flags uint16, f kernel.Family) { begin(&x.batch, typ, flags, f) }

// end closes a message for an op.
func (x *transaction) end(op int) {
	x.batch.End()
	x.of = append(x.of, span{op: op})
}

func (x *transaction) fail(op int, err error) {
	if x.err == nil {
		x.bad, x.err = op, err
	}
}

// build adds all messages.
func (x *transaction) build() {
	x.limit(unix.NFNL_MSG_BATCH_BEGIN)
	w := x.sorted()
	for _, f := range families {
		switch {
		case slices.Contains(x.emptied, f):
			x.begin(unix.NFT_MSG_DELTABLE, 0, f)
			x.batch.Text(unix.NFTA_TABLE_NAME, x.table)
			x.end(-1)
		case w.families[f]:
			putTable(&x.batch, x.table, f)
			x.of = append(x.of, span{op: -1})
		}
	}
	for _, i := range w.chains { // before rules jump there
		x.newChain(i)
	}
	echoed := 0
	for _, i := range slices.Concat(w.chains, w.goneChains) {
		c := x.ops[i].Object.(kernel.Chain)
		flags := uint16(0)
		if x.limits && echoed < maxEchoedChains {
			flags, x.echoes, echoed = unix.NLM_F_ECHO, true, echoed+1
		}
		x.begin(unix.NFT_MSG_DELRULE, flags, c.Family)
		x.batch.Text(unix.NFTA_RULE_TABLE, x.table)
		x.batch.Text(unix.NFTA_RULE_CHAIN, chainName(c.Table, c.Name))
		x.end(i)
	}
	for _, i := range slices.Concat(w.chains, w.goneChains) {
		gone := x.ops[i].Verb == kernel.Remove
		if is, there, right := x.classed(i); is && there && (gone || !right) {
			x.class(unix.NFT_MSG_DELSETELEM, i)
		}
	}
	x.batch.Grow(typicalElement * (len(w.entries) + len(w.goneEntries)))
	x.entries(unix.NFT_MSG_DELSETELEM, w.goneEntries)
	for _, i := range w.goneSets {
		s := x.ops[i].Object.(kernel.Set)
		x.begin(unix.NFT_MSG_DELSET, 0, s.Family)
		x.batch.Text(unix.NFTA_SET_TABLE, x.table)
		x.batch.Text(unix.NFTA_SET_NAME, s.Name)
		x.end(i)
		if s.Type == kernel.MapIPPort {
			x.begin(unix.NFT_MSG_DELSET, 0, s.Family)
			x.batch.Text(unix.NFTA_SET_TABLE, x.table)
			x.batch.Text(unix.NFTA_SET_NAME, classes(x.names, s.Family))
			x.end(i)
		}
	}
	for _, i := range w.goneChains {
		x.deleteChain(i)
	}
	for _, i := range w.goneFlows {
		putFlowtable(&x.batch, unix.NFT_MSG_DELFLOWTABLE, x.table, x.ops[i].Object.(kernel.Flowtable).Family, nil)
		x.of = append(x.of, span{op: i})
	}
	created := make(map[kernel.Family]bool) // the maps of classes
	create := func(f kernel.Family, i int) {
		if !created[f] {
			created[f], x.ids = true, x.ids+1
			putClasses(&x.batch, x.table, x.names, f, x.ids)
			x.of = append(x.of, span{op: i})
		}
	}
	for _, i := range w.sets {
		x.ids++
		if err := putSet(&x.batch, x.table, x.ops[i].Object.(kernel.Set), x.ids); err != nil {
			x.fail(i, err)
			return
		}
		x.of = append(x.of, span{op: i})
		if s := x.ops[i].Object.(kernel.Set); s.Type == kernel.MapIPPort {
			create(s.Family, i)
		}
	}
	for _, i := range w.chains {
		if is, _, right := x.classed(i); is && !right {
			create(x.ops[i].Object.(kernel.Chain).Family, i)
			x.class(unix.NFT_MSG_NEWSETELEM, i)
		}
	}
	x.entries(unix.NFT_MSG_NEWSETELEM, w.entries)
	for _, i := range w.chains {
		x.rules(i)
	}
	x.limit(unix.NFNL_MSG_BATCH_END)
}

func (x *transaction) limit(typ uint16) {
	limit(&x.batch, typ)
	x.of = append(x.of, span{op: -1})
}

// work is the places of ops by what they do.
type work struct {
	families             map[kernel.Family]bool // that something is written in
	chains, goneChains   []int
	goneFlows            []int // flowtables
	sets, goneSets       []int
	entries, goneEntries []int32
}

func (x *transaction) sorted() work {
	w := work{families: make(map[kernel.Family]bool, len(families))}
	written := make(map[kernel.Chain]bool)
	for i := range x.ops {
		op := &x.ops[i]
		gone := op.Verb == kernel.Remove
		switch o := op.Object.(type) {
		case kernel.Entry:
			if !gone || op.Verb == kernel.Change {
				w.entries = append(w.entries, int32(i))
			}
			if gone || op.Verb == kernel.Change {
				w.goneEntries = append(w.goneEntries, int32(i))
			}
		case kernel.Set:
			switch {
			case slices.Contains(x.emptied, o.Family):
				continue
			case gone:
				w.goneSets = append(w.goneSets, i)
			case op.Verb == kernel.Add:
				w.sets = append(w.sets, i)
				w.families[o.Family] = true
			default:
				x.fail(i, errors.New("a set cannot be changed, only replaced"))
			}
		case kernel.Chain:
			switch {
			case slices.Contains(x.emptied, o.Family):
			case gone:
				w.goneChains = append(w.goneChains, i)
			default:
				w.chains = append(w.chains, i)
				w.families[o.Family] = true
				written[kernel.Chain{Family: o.Family, Table: o.Table, Name: o.Name}] = true
			}
		case kernel.Flowtable: // others are written by writeFlowtables
			if !slices.Contains(x.emptied, o.Family) {
				w.goneFlows = append(w.goneFlows, i)
			}
		case kernel.Swap:
			x.fail(i, errors.New("sets of nftables have no fixed size, so none is replaced"))
		default:
			x.fail(i, fmt.Errorf("nftables does not handle objects of kind %s", op.Object.Kind()))
		}
	}
	// A chain that goes and comes in one plan is only written.
	w.goneChains = slices.DeleteFunc(w.goneChains, func(i int) bool {
		c := x.ops[i].Object.(kernel.Chain)
		c.Rules = ""
		return written[c]
	})
	return w
}

// newChain creates a chain unless it is there. A base chain that is not where it belongs is removed first.
func (x *transaction) newChain(i int) {
	c := x.ops[i].Object.(kernel.Chain)
	if _, ok := hooks[c.Table][c.Name]; c.BuiltIn() && !ok {
		x.fail(i, fmt.Errorf("table %s has no chain %s", c.Table, c.Name))
		return
	}
	if was, ok := x.ops[i].Was.(kernel.Chain); ok && strings.HasPrefix(was.Rules, misplaced) {
		x.deleteChain(i)
	}
	putChain(&x.batch, x.table, c)
	x.of = append(x.of, span{op: i})
}

// putChain adds the message that creates a chain unless it is there.
func putChain(b *nl.Batch, table string, c kernel.Chain) {
	begin(b, unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, c.Family)
	b.Text(unix.NFTA_CHAIN_TABLE, table)
	b.Text(unix.NFTA_CHAIN_NAME, chainName(c.Table, c.Name))
	if at, ok := hooks[c.Table][c.Name]; ok {
		hook := b.Nest(unix.NFTA_CHAIN_HOOK)
		b.U32BE(unix.NFTA_HOOK_HOOKNUM, at.hook)
		b.U32BE(unix.NFTA_HOOK_PRIORITY, uint32(at.priority))
		b.EndNest(hook)
		b.U32BE(unix.NFTA_CHAIN_POLICY, accept)
		b.Text(unix.NFTA_CHAIN_TYPE, at.kind)
	}
	b.End()
}

func (x *transaction) deleteChain(i int) {
	c := x.ops[i].Object.(kernel.Chain)
	x.begin(unix.NFT_MSG_DELCHAIN, 0, c.Family)
	x.batch.Text(unix.NFTA_CHAIN_TABLE, x.table)
	x.batch.Text(unix.NFTA_CHAIN_NAME, chainName(c.Table, c.Name))
	x.end(i)
}

// rules adds the rules of a chain.
func (x *transaction) rules(i int) {
	c := x.ops[i].Object.(kernel.Chain)
	if c.Rules == "" {
		return
	}
	for words := range strings.SplitSeq(c.Rules, "\n") {
		r, err := compile(x.names, c.Family, c.Table, words)
		var own []byte
		if err == nil {
			own, err = userdata(words, r.comment)
		}
		if err != nil {
			x.fail(i, err)
			return
		}
		putRule(&x.batch, x.table, c, r.exprs, own)
		x.of = append(x.of, span{op: i})
	}
}

func putRule(b *nl.Batch, table string, c kernel.Chain, exprs []expr, userdata []byte) {
	begin(b, unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, c.Family)
	b.Text(unix.NFTA_RULE_TABLE, table)
	b.Text(unix.NFTA_RULE_CHAIN, chainName(c.Table, c.Name))
	putExprs(b, unix.NFTA_RULE_EXPRESSIONS, exprs)
	b.Attr(unix.NFTA_RULE_USERDATA, userdata)
	b.End()
}

// entries adds the messages for entries. Successive ones of one set share messages.
func (x *transaction) entries(typ uint16, places []int32) {
	x.elements, x.offsets = slices.Grow(x.elements, len(places)), slices.Grow(x.offsets, len(places))
	for i := 0; i < len(places) && x.err == nil; {
		i += x.run(typ, places[i:])
	}
}

// run adds one message and returns how many entries it has.
func (x *transaction) run(typ uint16, places []int32) (n int) {
	first := x.ops[places[0]].Object.(kernel.Entry)
	family, spec, ok := x.names.SetSpec(first.Set)
	shape, known := shapes[spec.Type]
	if !ok || !known {
		x.fail(int(places[0]), fmt.Errorf("set %s is not ours", first.Set))
		return 1
	}
	if slices.Contains(x.emptied, family) {
		for n < len(places) && x.ops[places[n]].Object.(kernel.Entry).Set == first.Set {
			n++
		}
		return n
	}
	flags := uint16(0)
	switch {
	case typ == unix.NFT_MSG_NEWSETELEM:
		flags = unix.NLM_F_CREATE
	case shape.to != nil && len(x.elements) < maxEchoed:
		flags, x.echoes = unix.NLM_F_ECHO, true
	}
	start := x.batch.Size()
	x.begin(typ, flags, family)
	x.batch.Text(unix.NFTA_SET_ELEM_LIST_TABLE, x.table)
	x.batch.Text(unix.NFTA_SET_ELEM_LIST_SET, first.Set)
	list := x.batch.Nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
	end := x.batch.Size() + maxElements
	s := span{first: len(x.elements)}
	for ; n < len(places) && x.batch.Size() < end; n++ {
		e, _ := x.ops[places[n]].Object.(kernel.Entry)
		if e.Set != first.Set {
			break
		}
		at := x.batch.Size()
		if !shape.putElement(&x.batch, &e, family, typ == unix.NFT_MSG_NEWSETELEM) {
			x.fail(int(places[n]), fmt.Errorf("%s does not fit set %s", e.Member(), e.Set))
			return n + 1
		}
		x.elements = append(x.elements, places[n])
		x.offsets = append(x.offsets, int32(at-start))
		if at = x.batch.Size(); shape.network && putEnd(&x.batch, &e) {
			x.elements = append(x.elements, places[n])
			x.offsets = append(x.offsets, int32(at-start))
		}
	}
	x.batch.EndNest(list)
	x.batch.End()
	s.n = len(x.elements) - s.first
	x.of = append(x.of, s)
	return n
}
