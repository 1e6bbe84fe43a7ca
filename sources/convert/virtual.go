package convert

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// virtual is one address and port with its backends, as every format but Kubernetes' has them.
type virtual struct {
	name      string // what the configuration calls it; "" = nothing
	at        sources.Origin
	addr      netip.AddrPort
	mark      uint32 // firewall mark; addr is then zero, and protocol FWMark
	protocol  sources.Protocol
	scheduler string        // "" = the node's default
	affinity  time.Duration // 0 = none
	ipv6      bool          // with a mark: of IPv6
	prefix4   uint8         // of clients that stay together; 0 = one client
	prefix6   uint8
	onePacket bool
	// noProtocol: the configuration names none.
	noProtocol bool
	flags      sources.SchedulerFlags // of sh and mh, without FlagsGiven
	weight     uint32                 // of backends that give none
	ranges     []netip.Prefix         // clients that may connect; nil = all
	hides      bool                   // backends see an address of this node, not the client's
	forward    sources.Forward
	check      *sources.HealthCheck // what settle makes of those of the backends
	reals      []real               // no two with one address and port
	index      map[place]int        // in reals
	lost       int                  // backends that are configured and cannot be imported
	quorum     int                  // weight of backends that are up, below which a program was called; 0 = 1
	moves      bool                 // that program could move the VIP
	minHealthy int                  // backends without which the node loses the VIP, if counted
	counted    bool
	notes      []Note
}

// place is where a backend serves.
type place struct {
	addr netip.AddrPort // with a name only the port
	host string         // a DNS name in the place of the address; "" = none
	srv  bool           // the name has SRV records, and the port is theirs
}

// String is the place for people.
func (p place) String() string {
	switch {
	case p.srv:
		return "SRV " + p.host
	case p.host != "":
		return net.JoinHostPort(p.host, strconv.Itoa(int(p.addr.Port())))
	}
	return p.addr.String()
}

type real struct {
	at sources.Origin
	place
	weight    uint32
	weighted  bool // the weight counts, not those of SRV records
	limits    limits
	backup    bool
	unchecked bool
	notReady  bool
	check     *sources.HealthCheck // its own; nil = none
	checkAt   sources.Origin
}

// noteNotify is the note about a word, its argument, that runs programs or sends mail when a state changes.
const noteNotify = "%s: use [notify] in svcproxy.toml, which calls a program or a web server for all services"

// note adds a note about the virtual server.
func (v *virtual) note(at sources.Origin, format string, args ...any) {
	v.notes = append(v.notes, Note{Origin: at, Message: message(format, args...)})
}

// noteChange adds a note about something that makes traffic flow otherwise.
func (v *virtual) noteChange(at sources.Origin, format string, args ...any) {
	v.noteDanger(Feature, at, format, args...)
}

// noteDanger adds a note about something dangerous.
func (v *virtual) noteDanger(d Danger, at sources.Origin, format string, args ...any) {
	v.note(at, format, args...)
	v.notes[len(v.notes)-1].Danger = d
}

// setScheduler takes a scheduler of IPVS, if it is one that svcproxy has.
func (v *virtual) setScheduler(at sources.Origin, name string) {
	if slices.Contains(sources.Schedulers(), name) {
		v.scheduler = name
		return
	}
	v.noteChange(at, "scheduler %s: svcproxy does not have it, the node's default is used", name)
}

// Bounds of sessionAffinityTimeout.
const (
	leastAffinity = time.Second
	mostAffinity  = 24 * time.Hour
)

func (v *virtual) setAffinity(at sources.Origin, seconds uint64) {
	d := min(mostAffinity, time.Duration(min(seconds, 1<<31))*time.Second)
	if d < leastAffinity {
		d = leastAffinity
	}
	if v.affinity = d; d != time.Duration(seconds)*time.Second {
		v.noteChange(at, "persistence of %d s: taken as %s, as 1 s to 24 h are possible", seconds, d)
	}
}

// setForward takes the forwarding method of a backend. A service has one.
func (v *virtual) setForward(at sources.Origin, method sources.Forward, what string) {
	switch {
	case method == "":
		v.noteChange(at, "%s: svcproxy does not have it, the node's default is used", what)
	case v.forward == "":
		v.forward = method
	case v.forward != method:
		v.noteChange(at, "%s: all backends of a service are forwarded to alike, here by %s", what, v.forward)
	}
}

// complete finishes a virtual server whose backends are known. Only masquerading can change a port.
func (v *virtual) complete() {
	if v.mark != 0 {
		v.protocol = sources.FWMark
		v.checkPort()
		if v.affinity > 0 || v.forward.Unchanged() {
			v.ports(0, "IPVS keeps the packet's port here")
		}
	}
	if !v.forward.Unchanged() {
		v.forward = ""
		return
	}
	port := v.addr.Port()
	v.ports(port, fmt.Sprintf("%s does not change a port, so the backend gets port %d", v.forward, port))
}

// ports gives all backends a port where their own has no effect, and makes one of those that differed in it
// alone. It gets the share of all.
func (v *virtual) ports(port uint16, why string) {
	index := map[netip.Addr]int{}
	kept := v.reals[:0]
	for _, r := range v.reals {
		if own := r.addr.Port(); own != port {
			v.note(r.at, "port %d of %s: %s", own, r.addr.Addr(), why)
			r.addr = netip.AddrPortFrom(r.addr.Addr(), port)
		}
		i, again := index[r.addr.Addr()]
		if !again {
			index[r.addr.Addr()] = len(kept)
			kept = append(kept, r)
			continue
		}
		first := &kept[i]
		if first.backup != r.backup {
			v.note(r.at, "backend %s again, first at %s: one is a backup of the other, and serves as a backend", r.addr.Addr(),
				first.at)
			if first.backup {
				*first = r
			}
			continue
		}
		note := v.note
		if sources.IgnoresWeights(v.scheduler) {
			note = v.noteChange // each had a share of its own
		}
		note(r.at, "backend %s again: it is one with that of %s, and has the weights of both", r.addr.Addr(), first.at)
		first.weight = min(first.weight+r.weight, maxWeight)
		first.limits = first.limits.plus(r.limits)
	}
	v.reals = kept
}

// checkPort gives a health check the port that all backends have, where the service has none for it: behind a
// mark, or one of another protocol.
func (v *virtual) checkPort() {
	if v.check == nil || v.check.Probe.Port != 0 || v.check.Probe.Type.Protocol() == 0 || len(v.reals) == 0 {
		return
	}
	port := v.reals[0].addr.Port()
	if !slices.ContainsFunc(v.reals, func(r real) bool { return r.addr.Port() != port }) {
		check := *v.check
		check.Probe.Port = port
		v.check = &check
	}
}

// joinMarks puts the virtual servers of a mark together, since a service by mark has both families.
func joinMarks(virtuals []virtual) []virtual {
	all := make([]virtual, 0, len(virtuals))
	index := map[uint32]int{} // of marks, in all
	for _, v := range virtuals {
		v.settle()
		i, again := index[v.mark]
		if v.mark == 0 || !again {
			index[v.mark] = len(all)
			all = append(all, v)
			continue
		}
		first := &all[i]
		if v.scheduler != first.scheduler || v.affinity != first.affinity || v.flags != first.flags ||
			v.forward != first.forward || !sameCheck(v.check, first.check) {
			first.noteChange(v.at, "firewall mark %d again: both get what the first has", v.mark)
		}
		for i := range v.reals {
			v.reals[i].unchecked = first.check != nil && (v.reals[i].unchecked || !sameQuestion(v.check, first.check))
		}
		first.prefix4, first.prefix6 = max(first.prefix4, v.prefix4), max(first.prefix6, v.prefix6)
		first.reals, first.notes = append(first.reals, v.reals...), append(first.notes, v.notes...)
		first.lost += v.lost
	}
	return all
}

// maxWeight is the largest weight of an endpoint.
const maxWeight = 65535

// add adds a backend, and reports whether it could. What IPVS would refuse is a note. Of a backup and a
// backend that is the same server the backend stays.
func (v *virtual) add(r real) bool {
	i, twice := v.index[r.place]
	switch {
	case v.mark == 0 && r.host == "" && r.addr.Addr().Is4() != v.addr.Addr().Is4():
		v.lose(r.at, "backend %s: it has another family than %s", r.place, v.addr)
		return false
	case twice && v.reals[i].backup && !r.backup:
		v.note(v.reals[i].at, "backup %s: it is a backend, too, at %s, and serves as that", r.place, r.at)
	case twice:
		v.note(r.at, "backend %s: it is there twice, first at %s", r.place, v.reals[i].at)
		return false
	case r.addr.Addr().IsLoopback() || r.addr.Addr().IsUnspecified() || r.addr.Port() == 0 && v.mark == 0 && !r.srv:
		v.lose(r.at, "backend %s: IPVS cannot reach a server on this node's loopback addresses, or without a port", r.place)
		return false
	}
	v.checkLimits(&r)
	if r.weight > maxWeight {
		v.noteChange(r.at, "weight %d: taken as %d, the largest", r.weight, maxWeight)
		r.weight = maxWeight
	}
	if twice {
		v.reals[i] = r
		return true
	}
	if v.index == nil {
		v.index = map[place]int{}
	}
	v.index[r.place] = len(v.reals)
	v.reals = append(v.reals, r)
	return true
}

// lose notes a backend that cannot be imported.
func (v *virtual) lose(at sources.Origin, format string, args ...any) {
	v.lost++
	v.noteChange(at, format, args...)
}

// services joins virtual servers into services: those of one address whose backends are the same
// hosts become the ports of one service.
func services(virtuals []virtual) Result {
	var r Result
	groups := groupsOf(&r, joinMarks(virtuals))
	r.Services = make([]sources.Service, 0, len(groups))
	names := names{}
	for _, g := range groups {
		if c := g[0].check; c != nil && !slices.ContainsFunc(g, func(v virtual) bool {
			return v.protocol == c.Probe.Type.Protocol()
		}) {
			g[0].checkPort()
		}
		s := service(g)
		s.Name = names.unique(nameOf(g))
		for _, v := range g {
			for _, n := range v.notes {
				n.Service = s.FullName()
				r.Notes = append(r.Notes, n)
			}
		}
		r.Services = append(r.Services, s)
	}
	return certified(r)
}

// groupsOf returns the virtual servers that are ports of one service, in their order. One that has lost all
// its backends would only refuse connections, and is left out.
func groupsOf(r *Result, virtuals []virtual) (groups [][]virtual) {
	type port struct {
		addr netip.AddrPort
		sources.Protocol
	}
	index, first := map[string]int{}, map[port]sources.Origin{}
	for i := range virtuals {
		v := &virtuals[i]
		v.complete()
		if at, taken := first[port{v.addr, v.protocol}]; taken && v.mark == 0 {
			r.Notes = append(r.Notes, Note{Origin: v.at, Danger: Feature,
				Message: fmt.Sprintf("%s: it is there twice, first at %s", v.what(), at)})
			continue
		}
		if len(v.reals) == 0 && v.lost > 0 {
			r.Notes = append(append(r.Notes, v.notes...), Note{
				Origin: v.at, Danger: Feature,
				Message: fmt.Sprintf("%s: none of its backends can be imported, so it is not served", v.what()),
			})
			continue
		}
		first[port{v.addr, v.protocol}] = v.at
		key := v.joins()
		g, known := index[key]
		if key == "" || !known {
			g = len(groups)
			index[key] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], *v)
	}
	return groups
}

// what names a virtual server in a note.
func (v *virtual) what() string {
	if v.mark != 0 {
		return fmt.Sprintf("firewall mark %d", v.mark)
	}
	return "virtual server " + v.addr.String()
}

// joins returns what virtual servers must have in common to be ports of one service; "" if one stands alone:
// it has a mark, no backends, two at one address, or SRV records, which have one port.
func (v *virtual) joins() string {
	if v.mark != 0 || len(v.reals) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v %q %q %v", v.addr.Addr(), v.name, v.scheduler,
		[]any{v.affinity, v.prefix4, v.prefix6, v.onePacket, v.flags, v.hides, v.forward, v.counted, v.minHealthy})
	if v.check != nil {
		fmt.Fprintf(&b, "%#v", *v.check)
	}
	type host struct {
		addr netip.Addr
		name string
	}
	hosts := make(map[host]bool, len(v.reals))
	for _, r := range v.reals {
		h := host{r.addr.Addr(), r.host}
		if hosts[h] || r.srv {
			return ""
		}
		hosts[h] = true
		fmt.Fprintln(&b, h, r.weight, r.limits, r.backup, r.unchecked, r.notReady)
	}
	return b.String()
}

func sameCheck(a, b *sources.HealthCheck) bool { return a == b || a != nil && b != nil && *a == *b }

// service makes one service of virtual servers that join.
func service(g []virtual) sources.Service {
	first := &g[0]
	s := sources.Service{
		Namespace: sources.DefaultNamespace, Type: sources.ClusterIP, Origin: first.at,
		ClusterIPs:            []netip.Addr{first.addr.Addr()},
		ExternalTrafficPolicy: sources.Cluster, InternalTrafficPolicy: sources.Cluster,
		AffinityTimeout: sources.DefaultAffinityTimeout,
		Scheduler:       first.scheduler, HealthCheck: first.check, Forward: first.forward,
	}
	if first.mark != 0 {
		s.ClusterIPs = nil
	} else if first.counted {
		s.AnnounceMinHealthy = &first.minHealthy
	}
	if first.hides {
		s.Type, s.ClusterIPs, s.LoadBalancerIPs = sources.LoadBalancer, nil, []sources.VIP{{Addr: first.addr.Addr()}}
		s.SourceRanges = first.ranges
	}
	if first.affinity > 0 {
		s.Affinity, s.AffinityTimeout = sources.AffinityClientIP, first.affinity
		s.AffinityPrefix4, s.AffinityPrefix6 = first.prefix4, first.prefix6
	}
	s.OnePacket, s.SchedulerFlags = first.onePacket, first.schedulerFlags()
	for _, v := range g {
		p := sources.Port{Protocol: v.protocol, Port: v.addr.Port(), TargetPort: usualPort(v.reals, v.addr.Port())}
		if len(g) > 1 {
			p.Name = strings.ToLower(v.protocol.String()) + "-" + strconv.Itoa(int(p.Port))
		}
		s.Ports = append(s.Ports, p)
	}
	for i, r := range first.reals {
		e := sources.Endpoint{
			Addr: r.addr.Addr(), Weight: r.weight, Backup: r.backup, Unchecked: r.unchecked, Ready: !r.notReady,
			Serving:        !r.notReady,
			MaxConnections: r.limits.upper, ResumeConnections: r.limits.lower,
		}
		for j, v := range g {
			e.Ports = append(e.Ports, sources.EndpointPort{Name: s.Ports[j].Name, Protocol: v.protocol,
				Port: v.reals[i].addr.Port()})
		}
		if r.host != "" {
			s.Names = append(s.Names, sources.Name{Host: r.host, SRV: r.srv, Weighted: r.weighted, Endpoint: e})
			continue
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	if first.mark != 0 {
		s.SetMark(first.mark)
	}
	sources.SortStableFunc(s.Endpoints, func(a, b sources.Endpoint) int { return a.Addr.Compare(b.Addr) })
	return s
}

// usualPort is the port that most backends have.
func usualPort(reals []real, byDefault uint16) uint16 {
	counts, most := map[uint16]int{}, byDefault
	for _, r := range reals {
		p := r.addr.Port()
		if r.backup || r.srv {
			continue
		}
		if counts[p]++; counts[p] > counts[most] {
			most = p
		}
	}
	return most
}

// nameOf is the name that the configuration gives, else one of address and port.
func nameOf(g []virtual) string {
	if name := label(g[0].name); name != "" {
		return name
	}
	if g[0].mark != 0 {
		return "fwmark-" + strconv.FormatUint(uint64(g[0].mark), 10)
	}
	name := "svc-" + g[0].addr.Addr().String()
	if len(g) == 1 {
		name += "-" + strconv.Itoa(int(g[0].addr.Port()))
		if g[0].protocol != sources.TCP {
			name += "-" + strings.ToLower(g[0].protocol.String())
		}
	}
	return label(name)
}

// label makes a DNS label of a text.
func label(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
	}
	s := strings.Trim(b.String()[:min(b.Len(), 60)], "-")
	if s != "" && s[0] >= '0' && s[0] <= '9' {
		s = "svc-" + s
	}
	return s
}

// names are the names that are taken, and the last number behind each.
type names map[string]int

// unique returns the name, with a number behind it if it is taken.
func (n names) unique(name string) string {
	free := name
	for ; n[free] > 0; free = fmt.Sprintf("%s-%d", name, n[name]) {
		n[name]++
	}
	n[free] = 1
	return free
}
