package kernel

import "strings"

// The kinds, in the order of the canonical text. Diff compares them in this order.
const (
	KindSysctl Kind = iota
	KindSet
	KindEntry
	KindSwap
	KindFlowtable
	KindChain
	KindOtherChain
	KindLink
	KindAddr
	KindRoute
	KindNeighbor
	KindAnnouncement
	KindTimeouts
	KindVirtual
	KindReal
	KindDaemon
	KindFlow
	NumKinds
)

// Row is what generic code needs to know of one kind of object. DESIGN.md says how
// to add a kind.
type Row struct {
	Name    string  // in messages, metrics and JSON
	Adapter Adapter // reads and writes the objects
	// Build and Teardown are the phases in which plan.Diff adds or changes objects,
	// and removes them.
	Build, Teardown Phase
	// Objects finds the kind's objects in a State. It is nil if a State has none.
	Objects List
	// Shared: objects that Diff finds equal are equal in every field, so that a
	// reading may use the slice of the state that it was made equal to.
	Shared bool

	// Canonical text: the first word of a line, and what reads and writes it. A nil
	// parse and text are those of Objects.
	word  string
	parse func(p *parser, f []string) error
	text  func(b *strings.Builder, o *Observed)
}

// Adapter is a package that reads and writes some kinds of objects.
type Adapter uint8

// The adapters, packages below kernel. IPVSTimeouts and IPVSSync are kernel/ipvs and
// the saved values of kernel/sysctl together.
const (
	SysctlAdapter Adapter = iota
	IPSetAdapter
	IPTablesAdapter
	OtherTables // kernel/iptables, for the back end that is not written
	LinkAdapter
	IPVSAdapter
	IPVSTimeouts
	IPVSSync
	ConntrackAdapter
	NumAdapters
)

// Rows is the table of kinds, by Kind. Everything that handles all kinds alike walks
// it: the text and its parser, State.Sort, plan.Diff, plan.Advance, the shards of package plan,
// the fake kernel, the contract test and host.
var Rows = [NumKinds]Row{
	KindSysctl: {Name: "sysctl", Adapter: SysctlAdapter, Build: SetSysctls, Teardown: RestoreSysctls,
		text: appendSysctls, Objects: sysctls},
	KindSet: {Name: "set", Adapter: IPSetAdapter, Build: AddSets, Teardown: RemoveSets, word: "create",
		Objects: sets},
	KindEntry: {Name: "entry", Adapter: IPSetAdapter, Build: AddGuards, Teardown: RemoveGuards, Shared: true,
		word: "add", Objects: entries},
	KindSwap: {Name: "swap", Adapter: IPSetAdapter, Build: AddSets},
	KindFlowtable: {Name: "flowtable", Adapter: IPTablesAdapter, Build: AddSets, Teardown: RemoveSets, word: "flowtable",
		Objects: flowtables},
	KindChain: {Name: "chain", Adapter: IPTablesAdapter, Build: WriteChains, Teardown: RemoveChains,
		text: appendChains, Objects: chains},
	KindOtherChain: {Name: "otherChain", Adapter: OtherTables, Build: DropOthers, Teardown: DropOthers,
		text: appendOthers, Objects: otherChains},
	KindLink: {Name: "link", Adapter: LinkAdapter, Build: AddLinks, Teardown: RemoveLinks, word: "link",
		Objects: links},
	KindAddr: {Name: "address", Adapter: LinkAdapter, Build: AddAddrs, Teardown: RemoveAddrs, Shared: true,
		word: "addr", Objects: addrs},
	KindRoute: {Name: "route", Adapter: LinkAdapter, Build: AddAddrs, Teardown: RemoveAddrs, Shared: true,
		word: "route", parse: (*parser).route, Objects: routes},
	KindNeighbor: {Name: "neighbor", Adapter: LinkAdapter, Build: AddAddrs, Teardown: RemoveAddrs, word: "neigh",
		Objects: neighbors},
	// of the word route, too
	KindAnnouncement: {Name: "announcement", Adapter: LinkAdapter, Build: Announce, Teardown: Withdraw, Shared: true,
		Objects: announcements},
	KindTimeouts: {Name: "timeouts", Adapter: IPVSTimeouts, Build: SetSysctls, Teardown: RestoreSysctls, word: "--set",
		parse: (*parser).timeouts, text: appendTimeouts},
	KindVirtual: {Name: "virtual", Adapter: IPVSAdapter, Build: AddVirtuals, Teardown: RemoveVirtuals, Shared: true,
		word: "-A", text: appendVirtuals, Objects: virtuals},
	KindReal: {Name: "real", Adapter: IPVSAdapter, Build: AddReals, Teardown: RemoveReals, Shared: true,
		word: "-a", parse: (*parser).real, text: byVirtuals, Objects: reals},
	KindFlow: {Name: "flow", Adapter: ConntrackAdapter, Teardown: ClearFlows},
	KindDaemon: {Name: "syncDaemon", Adapter: IPVSSync, Build: AddReals, Teardown: RemoveReals,
		word: "--start-daemon", Objects: syncDaemons},
}

// byWord finds the row of a line by its first word.
var byWord = func() map[string]*Row {
	rows := make(map[string]*Row)
	for k := range Rows {
		if word := Rows[k].word; word != "" {
			rows[word] = &Rows[k]
		}
	}
	return rows
}()

// byVirtuals is the text of real servers: appendVirtuals has it.
func byVirtuals(*strings.Builder, *Observed) {}

func (r *Row) append(b *strings.Builder, o *Observed) {
	switch {
	case r.text != nil:
		r.text(b, o)
	case r.Objects != nil:
		r.Objects.text(b, o.State)
	}
}

func (r *Row) read(p *parser, f []string) error {
	if r.parse != nil {
		return r.parse(p, f)
	}
	return r.Objects.parse(&p.o.State, f)
}
