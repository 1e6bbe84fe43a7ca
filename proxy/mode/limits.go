package mode

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// Limits adds to the state of any mode what refuses clients of services: see kernel.LimitsTable. The zero value is
// ready; one goroutine uses it. It makes that only if more than endpoints changed, and entries of a list only if the
// list did.
type Limits struct {
	last  *frontend.Frontends
	names kernel.Names
	state kernel.State // sets, entries and chains, sorted
	lists map[string]listed
}

// listed is a set of networks, and the list that it was made of.
type listed struct {
	list    *sources.List
	entries kernel.Entries
}

// LimitsTrial is one rule of each kind.
func LimitsTrial(n kernel.Names) (chains []kernel.Chain) {
	hash := kernel.HashOf("trial")
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		w := clients{names: n, family: f, refuse: "-g " + n.Chain(kernel.ChainRefuse)}
		chains = append(chains, w.refusing(), w.chain(n.Clients(hash), append(w.counted(&sources.Clients{
			Rate: sources.Rate{N: 1, Per: time.Second}, Burst: 1, Connections: 1, PerClient: true}, "trial"),
			"-m set --match-set "+n.List(f, hash)+" src -j DROP")...),
			w.look())
	}
	return chains
}

// Add returns the state with limits. Callers must not change its slices.
func (l *Limits) Add(s kernel.State, f *frontend.Frontends, n kernel.Names) kernel.State {
	if l.last == nil || l.names != n {
		l.make(f, n)
	} else if _, ok := f.Since(l.last); !ok {
		l.make(f, n)
	}
	l.last = f
	if len(l.state.Sets) == 0 {
		return s
	}
	s.Sets, s.Chains = slices.Concat(s.Sets, l.state.Sets), slices.Concat(s.Chains, l.state.Chains)
	kernel.SortFunc(s.Sets, kernel.Set.Compare)
	kernel.SortFunc(s.Chains, kernel.Chain.Compare)
	s.Entries = s.Entries.Join(l.state.Entries)
	return s
}

// make writes everything.
func (l *Limits) make(f *frontend.Frontends, n kernel.Names) {
	l.names, l.state = n, kernel.State{}
	before := l.lists
	l.lists = make(map[string]listed)
	for _, of := range f.Config.Families() {
		w := clients{Limits: l, names: n, family: of, lists: f.Lists(), before: before}
		var limited []kernel.Entry
		done, rejects := map[int32]bool{}, false
		for i := range f.Fronts {
			x := &f.Fronts[i]
			c := f.Clients(x)
			if c == nil || x.Key.Family() != of || x.Key.Mark() != 0 {
				continue
			}
			s := f.Service(x)
			limited = append(limited, kernel.Entry{Set: n.Set(of, kernel.Limited), Addr: x.Key.Addr, Proto: x.Key.Proto,
				Port: x.Key.Port, Goto: ClientsChain(n, s)})
			if rejects = rejects || c.Reject; !done[x.Service] {
				done[x.Service] = true
				w.service(s)
			}
		}
		if len(limited) == 0 {
			continue
		}
		w.add(kernel.Limited, "", limited)
		if l.state.Chains = append(l.state.Chains, w.look()); rejects {
			l.state.Chains = append(l.state.Chains, w.refusing())
		}
	}
	kernel.SortFunc(l.state.Sets, kernel.Set.Compare)
	kernel.SortFunc(l.state.Chains, kernel.Chain.Compare)
}

// ClientsChain is the name of the chain that refuses clients of a service.
func ClientsChain(n kernel.Names, s *sources.Service) string {
	return n.Clients(kernel.HashOf(s.Namespace, s.Name))
}

// clients writes the limits of one family.
type clients struct {
	*Limits
	names  kernel.Names
	family kernel.Family
	lists  sources.Lists
	before map[string]listed
	refuse string // the target for clients of the service
}

func (w *clients) base(rules ...string) kernel.Chain {
	return kernel.Chain{Family: w.family, Table: kernel.LimitsTable, Name: "PREROUTING", Rules: strings.Join(rules, "\n")}
}

// look is the chain that leads to those of services. A chain of nat makes the kernel track no connections, and without
// that no packet comes here, but a rule that asks for a connection's state does.
func (w *clients) look() kernel.Chain {
	return w.base("-m conntrack --ctstate NEW,RELATED -j VMAP --map " + w.names.Set(w.family, kernel.Limited) + " dst,dst")
}

func (w *clients) chain(name string, rules ...string) kernel.Chain {
	c := w.base(rules...)
	c.Name = name
	return c
}

// refusing is the chain that answers what is refused.
func (w *clients) refusing() kernel.Chain {
	with := "icmp-port-unreachable"
	if w.family == kernel.IPv6 {
		with = "icmp6-port-unreachable"
	}
	c := w.base("-p tcp -j REJECT --reject-with tcp-reset", "-j REJECT --reject-with "+with)
	c.Name = w.names.Chain(kernel.ChainRefuse)
	return c
}

// service writes the chain of a service. With several lists of clients that may use it, a second chain goes on.
func (w *clients) service(s *sources.Service) {
	c := s.Clients
	w.refuse = "-j DROP"
	if c.Reject {
		w.refuse = "-g " + w.names.Chain(kernel.ChainRefuse)
	}
	var rules []string
	for _, set := range w.sets(c.Deny, c.DenyLists) {
		rules = append(rules, "-m set --match-set "+set+" src "+w.refuse)
	}
	hash, allow := kernel.HashOf(s.Namespace, s.Name), w.sets(c.Allow, c.AllowLists)
	more := w.counted(c, s.Namespace, s.Name)
	switch {
	case len(allow) == 1:
		rules = append(rules, "-m set ! --match-set "+allow[0]+" src "+w.refuse)
	case len(allow) > 1:
		next := w.chain(w.names.Allowed(hash), more...)
		for _, set := range allow {
			rules = append(rules, "-m set --match-set "+set+" src -g "+next.Name)
		}
		rules, more = append(rules, w.refuse), nil
		w.state.Chains = append(w.state.Chains, next)
	}
	w.state.Chains = append(w.state.Chains, w.chain(w.names.Clients(hash), append(rules, more...)...))
}

// sets returns the names of sets that have networks, and adds them.
func (w *clients) sets(networks []netip.Prefix, lists []string) (names []string) {
	if len(networks) > 0 {
		names = append(names, w.list(kernel.HashOf(fmt.Sprint(networks)), &sources.List{Prefixes: networks}, false))
	}
	for _, name := range lists {
		names = append(names, w.list(kernel.HashOf("@", name), w.lists.Named(name), true))
	}
	return names
}

// list adds a set of networks of the family, unless it is there. A list that is missing has none. One that has a name
// may have changed since the last state.
func (w *clients) list(hash string, list *sources.List, named bool) string {
	set := w.names.List(w.family, hash)
	if _, there := w.Limits.lists[set]; there {
		return set
	}
	now, known := w.before[set]
	if !known || named && now.list != list {
		now = listed{list: list}
		var entries []kernel.Entry
		var prefixes []netip.Prefix
		if list != nil {
			prefixes = list.Prefixes
		}
		for _, p := range prefixes {
			if kernel.FamilyOf(p.Addr()) == w.family {
				entries = append(entries, kernel.NetEntry(set, p))
			}
		}
		now.entries = kernel.EntriesOf(entries)
	}
	w.Limits.lists[set] = now
	w.state.Sets = append(w.state.Sets, kernel.Set{Name: set, Type: kernel.HashNet, Family: w.family,
		MaxElem: kernel.Capacity(now.entries.Len())})
	w.state.Entries = w.state.Entries.Join(now.entries)
	return set
}

// add adds a set with entries, or one that packets fill.
func (w *clients) add(name kernel.SetName, full string, entries []kernel.Entry) {
	s := kernel.Set{Name: cmp.Or(full, w.names.Set(w.family, name)), Family: w.family, MaxElem: MeterSize}
	_, spec, _ := w.names.SetSpec(s.Name)
	if s.Type = spec.Type; !s.Type.ByPackets() {
		s.MaxElem = kernel.Capacity(len(entries))
	}
	w.state.Sets = append(w.state.Sets, s)
	w.state.Entries = w.state.Entries.Join(kernel.EntriesOf(entries))
}

// MeterSize is how many clients a limit for each client has room for.
const MeterSize = 1 << 16

// longest is how long a meter remembers a client at most. A client whose burst takes longer to come back may have it
// then.
const longest = 30 * 24 * time.Hour

// counted returns the rules for rate and connections of a service. A meter's name has its numbers: the kernel goes on
// with the limit that a client began with.
func (w *clients) counted(c *sources.Clients, service ...string) (rules []string) {
	full := func(set string) {
		rule := "-m set ! --match-set " + set + " src"
		if c.Closed {
			rule += " " + w.refuse
		}
		rules = append(rules, rule)
		if w.Limits != nil {
			w.add("", set, nil)
		}
	}
	if c.Rate.N > 0 {
		unit := map[time.Duration]string{time.Second: "second", time.Minute: "minute", time.Hour: "hour"}[c.Rate.Per]
		burst := cmp.Or(c.Burst, c.Rate.Burst())
		rule := fmt.Sprintf("-m limit --limit-above %d/%s --limit-burst %d", c.Rate.N, unit, burst)
		if !c.PerClient {
			rules = append(rules, rule+" "+w.refuse)
		} else {
			refilled := min(c.Rate.Per*time.Duration(burst)/time.Duration(c.Rate.N)+time.Minute, longest)
			meter := w.names.Meter(w.family, kernel.HashOf(append(service, rule)...))
			rules = append(rules, fmt.Sprintf("%s --meter %s --timeout %d %s", rule, meter, refilled/time.Second, w.refuse))
			full(meter)
		}
	}
	if c.Connections > 0 {
		rule := fmt.Sprintf("-m connlimit --connlimit-above %d", c.Connections)
		if !c.PerClient {
			return append(rules, rule+" "+w.refuse)
		}
		tally := w.names.Tally(w.family, kernel.HashOf(append(service, rule)...))
		rules = append(rules, fmt.Sprintf("%s --meter %s %s", rule, tally, w.refuse))
		full(tally)
	}
	return rules
}
