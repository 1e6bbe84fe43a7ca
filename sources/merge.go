package sources

import (
	"cmp"
	"net/netip"
	"slices"
)

// Merge makes one table of several, for a node. Of two services with the same name it leaves one out. Two
// services may ask for the same VIP and port or the same node port, or the VIP of one may be an endpoint of
// the other. Then it withholds that part from one of them: see Service.Withheld. It also withholds a VIP that
// is the node's default gateway, and services for which the node has no room: see bound. Each is a problem
// that names both services. The earlier service wins; the tables come in the order static, files by path, API
// server. A Merger also prefers services that were served before.
//
// Merge changes no argument. The merged table may share its services with an argument.
func Merge(host HostFacts, tables ...Table) (merged Table, problems []Problem) {
	found := judged(host, nil, host.serving, tables)
	merged = found.apply(tables)
	merged.Lists = listsOf(tables)
	return merged, found.problems
}

// listsOf returns the lists of tables. Those of one source alone have some.
func listsOf(tables []Table) Lists {
	for _, t := range tables {
		if len(t.Lists) > 0 {
			return t.Lists
		}
	}
	return nil
}

// Join makes one table of several without deciding contests. Of services with the same name, that of the earlier table
// comes first.
func Join(tables ...Table) Table {
	some := filled(tables)
	switch len(some) {
	case 0:
		return Table{}
	case 1:
		return some[0]
	}
	n := 0
	for _, t := range some {
		n += t.Services.Len()
	}
	all := make([]Service, 0, n)
	for _, t := range some {
		for _, page := range t.Services.pages {
			all = append(all, page...)
		}
	}
	joined := Table{Services: ServicesOf(all...)}
	joined.Sort()
	return joined
}

// verdict is what services of some tables do not get. Most services get all, and are not in it.
type verdict struct {
	of       map[place]outcome
	problems []Problem
	held     []Holding
	full     bool // there is no room for some services

	awaits    bool // something is withheld where a program of the host listens
	displaced []Displaced
	doubts    []Problem // the same for the services
}

// place is a service, by the index of its table and its index there.
type place struct{ table, service int }

type outcome struct {
	out      bool // all of it is left out
	withheld []Withheld
}

// judged returns the verdict on some tables. A single uncontested table needs no contest, unless the node leaves out
// services with limits, or an external IP is an endpoint. Only Merge can judge that: it depends on the node. served
// reports whether a claim was served before, whoever's it was.
func judged(host HostFacts, before seniority, served func(Claim) bool, tables []Table) verdict {
	v := verdict{of: map[place]outcome{}}
	some := filled(tables)
	if len(some) != 1 || host.NoLimits != "" || !some[0].isUncontested() || some[0].externalEndpoint() {
		v.take(judge(host, before, tables...))
	} else {
		v.bound(host, before, tables)
	}
	if len(host.Gateways) > 0 {
		v.gateways(host, tables)
	}
	if host.onlyMasquerades() || host.MasqueradeMark != 0 {
		v.marks(host, tables)
	}
	v.listeners(host, served, tables)
	v.report(tables)
	return v
}

// take takes over the result of a contest.
func (v *verdict) take(c *contest) {
	v.held, v.full = c.held, c.full
	for i := range c.services {
		switch s := &c.services[i]; {
		case s.out != "":
			v.of[s.at] = outcome{out: true, withheld: []Withheld{{Why: s.out}}}
		case len(s.withheld) > 0:
			v.of[s.at] = outcome{withheld: s.withheld}
		}
	}
}

// gateways withholds VIPs that are the next hop of a default route. If they were bound, the node would be cut off.
func (v *verdict) gateways(host HostFacts, tables []Table) {
	for i, t := range tables {
		for j := range t.Services.Len() {
			s := t.Services.At(j)
			for _, a := range s.VIPs {
				if host.cutOff(a) {
					v.cutOff(place{i, j}, a)
				}
			}
		}
	}
}

// marks withholds firewall marks that the node does not balance by.
func (v *verdict) marks(host HostFacts, tables []Table) {
	for i, t := range tables {
		for j := range t.Services.Len() {
			if why := host.leavesMark(t.Services.At(j)); why != "" {
				v.withhold(place{i, j}, Withheld{markClaim(t.Services.At(j).FWMark), why})
			}
		}
	}
}

// Limited reports whether a service of tables has allow, deny or limits.
func Limited(tables []Table) bool {
	limited := func(s *Service) bool { return s.Clients != nil }
	return slices.ContainsFunc(tables, func(t Table) bool { return t.Services.ContainsFunc(limited) })
}

// cutOff withholds one VIP.
func (v *verdict) cutOff(at place, vip netip.Addr) {
	v.withhold(at, Withheld{Claim{Addr: vip}, "VIP " + vip.String() + " is this node's default gateway: bound here it " +
		"would cut the node off"})
}

func (v *verdict) withhold(at place, w Withheld) {
	o := v.of[at]
	if o.out || slices.ContainsFunc(o.withheld, func(x Withheld) bool { return x.Claim == w.Claim }) {
		return
	}
	i, _ := slices.BinarySearchFunc(o.withheld, w, compareWithheld)
	o.withheld = slices.Insert(slices.Clone(o.withheld), i, w)
	v.of[at] = o
}

func compareWithheld(a, b Withheld) int { return a.Claim.Compare(b.Claim) }

// report makes a problem of everything that is left out, in the order of tables and names.
func (v *verdict) report(tables []Table) {
	places := make([]place, 0, len(v.of))
	for p := range v.of {
		places = append(places, p)
	}
	SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.service, b.service))
	})
	for _, p := range places {
		o, s := v.of[p], *tables[p.table].Services.At(p.service)
		s.Withheld = o.withheld
		what := "left out in part: %s"
		if o.out || !s.served() {
			what = "left out: %s"
		}
		for _, w := range o.withheld {
			v.problems = append(v.problems, problem(&s, what, w.Why))
		}
	}
}

// apply makes one sorted table of tables.
func (v *verdict) apply(tables []Table) Table {
	if len(v.of) == 0 {
		joined := Join(tables...)
		if joined.Services.Len() == 0 {
			return Table{}
		}
		if !joined.sorted() {
			joined = Table{Services: ServicesOf(joined.Services.Slice()...)}
			joined.Sort()
		}
		return Table{Services: joined.Services}.Uncontested()
	}
	n := 0
	for _, t := range tables {
		n += t.Services.Len()
	}
	all := make([]Service, 0, n)
	for i, t := range tables {
		for j := range t.Services.Len() {
			o := v.of[place{i, j}]
			if o.out {
				continue
			}
			all = append(all, *t.Services.At(j))
			all[len(all)-1].Withheld = o.withheld
		}
	}
	if len(all) == 0 {
		return Table{}
	}
	merged := Table{Services: ServicesOf(all...)}
	merged.Sort()
	return merged
}

// externalEndpoint reports whether any external IP is also an endpoint.
func (t Table) externalEndpoint() bool {
	external := map[netip.Addr]bool{}
	for i := range t.Services.Len() {
		for _, a := range t.Services.At(i).ExternalIPs {
			external[a] = true
		}
	}
	if len(external) == 0 {
		return false
	}
	return t.Services.ContainsFunc(func(s *Service) bool {
		return slices.ContainsFunc(s.Endpoints, func(e Endpoint) bool { return external[e.Addr] })
	})
}

// filled returns the tables that have services.
func filled(tables []Table) []Table {
	return slices.DeleteFunc(slices.Clone(tables), func(t Table) bool { return t.Services.Len() == 0 })
}
