package sources

import (
	"fmt"
	"slices"
)

// judgement collects doubts about services on a node.
type judgement struct {
	host   HostFacts
	doubts []Problem
}

func (j *judgement) doubt(s *Service, format string, args ...any) {
	j.doubts = append(j.doubts, problem(s, format, args...))
}

// service applies the rules that depend on one service alone.
func (j *judgement) service(s *Service) {
	for _, text := range s.Legacy {
		j.doubt(s, "%s, as kube-proxy does: write it so, leading zeros are octal to other programs", text)
	}
	if s.Origin.File == "" || !s.Type.Serves() {
		return
	}
	if s.Type == NodePort && len(s.Ports) > 0 && !hasNodePort(s) {
		j.doubt(s, "type NodePort without a nodePort opens none: give one, nothing allocates it here")
	}
	j.vips(s)
	j.listeners(s)
	j.scheduler(s)
	j.limits(s)
	j.schedulerFlags(s)
	j.locality(s)
	j.forward(s)
	j.health(s)
}

// vips warns of VIPs that are addresses of the node or its gateway, of those that keepalived may move whatever becomes
// of them, and of external IPs that are also endpoints.
func (j *judgement) vips(s *Service) {
	for kind, a := range s.VIPs {
		if j.host.cutOff(a) {
			j.doubt(s, "VIP %s is this host's default gateway: it is left out, as to bind it would cut the node off", a)
		}
		counts := j.host.Moved && s.Announces(kind, true)
		if j.host.Moved && !counts {
			j.doubt(s, "VIP %s does not count for keepalived (announce = false): it stays here if this node cannot serve it", a)
		}
		if j.host.owns(a) && kind != KindExternalIP && !counts { // keepalived gives the master its VIPs
			j.doubt(s, "VIP %s is this host's own address: it is served, and not bound while the host has it", a)
		}
	}
	if len(j.host.Addrs) > 0 || len(s.ExternalIPs) == 0 {
		return
	}
	for _, e := range s.Endpoints {
		if slices.Contains(s.ExternalIPs, e.Addr) && !loops(s, e) {
			j.doubt(s, "external IP %s is also an endpoint: right only if it is this host's own address", e.Addr)
		}
	}
}

// listeners warns of programs of the host that listen where the service asks to be served. It cannot know what is
// served.
func (j *judgement) listeners(s *Service) {
	for a := range s.Addresses {
		switch text, withheld := j.host.listens(s, &a, func(Claim) bool { return false }); {
		case withheld:
			j.doubt(s, "left out in part, unless it is served already: %s", text)
		case text != "":
			j.doubt(s, "%s", text)
		}
	}
}

// scheduler warns of a scheduler that the kernel lacks, and of weights that it ignores.
func (j *judgement) scheduler(s *Service) {
	if s.Scheduler != "" && j.host.Schedulers != nil && !slices.Contains(j.host.Schedulers, s.Scheduler) &&
		CheckScheduler(s.Scheduler) == nil {
		j.doubt(s, "this kernel has no scheduler %q: the module is ip_vs_%s", s.Scheduler, s.Scheduler)
	}
	scheduler := j.host.scheduler(s)
	if n, most := ofOneFamily(s.Endpoints), buckets[scheduler]; most > 0 && n > most {
		j.doubt(s, "scheduler %q has a table of %d entries with most kernels, so some of the %d endpoints get no "+
			"connection: \"wrr\" or \"lc\" would use all", scheduler, most, n)
	}
	if !IgnoresWeights(scheduler) {
		return
	}
	if DifferentWeights(s.Endpoints) {
		j.doubt(s, "scheduler %q ignores weights, and they differ: %q would heed them", scheduler, heeding(scheduler))
	}
}

// ofOneFamily returns how many endpoints a virtual server has at most: each is of one family.
func ofOneFamily(endpoints []Endpoint) int {
	ipv6 := 0
	for i := range endpoints {
		if endpoints[i].Addr.Is6() {
			ipv6++
		}
	}
	return max(ipv6, len(endpoints)-ipv6)
}

// heeding returns the scheduler that does the same and heeds weights.
func heeding(scheduler string) string {
	switch scheduler {
	case "lc":
		return "wlc"
	case "dh":
		return "mh"
	}
	return "wrr"
}

// locality warns of traffic policies that leave no endpoint on this node.
func (j *judgement) locality(s *Service) {
	if j.host.NodeName == "" || len(s.Endpoints) == 0 || slices.ContainsFunc(s.Endpoints, j.host.Local) {
		return
	}
	if s.ExternalTrafficPolicy == Local {
		j.doubt(s, `externalTrafficPolicy = "Local" and no endpoint on this node, %s`, j.host.NodeName)
	}
	if s.InternalTrafficPolicy == Local && len(s.ClusterIPs) > 0 {
		j.doubt(s, `internalTrafficPolicy = "Local" and no endpoint on this node, %s`, j.host.NodeName)
	}
}

// marks warns of services that this node leaves out, in the words of Merge.
func (j *judgement) marks(t Table) {
	for i := range t.Services.Len() {
		if s := t.Services.At(i); s.Origin.File != "" {
			if why := j.host.leavesMark(s); why != "" {
				j.doubt(s, "left out: %s", why)
			}
		}
	}
}

// onlyHere warns of contests that exist on this node alone, because an external IP is an endpoint and not an address of
// the node.
func (j *judgement) onlyHere(t Table) {
	if len(j.host.Addrs) == 0 {
		return
	}
	anywhere := map[Withheld]bool{}
	for _, s := range judge(HostFacts{}, nil, t).services {
		for _, w := range s.withheld {
			anywhere[w] = true
		}
	}
	for _, s := range judge(j.host, nil, t).services {
		for _, w := range s.withheld {
			if !anywhere[w] {
				j.doubt(s.Service, "%s", w.Why)
			}
		}
	}
}

// unmasqueraded warns once, not for each service, that replies to clients of cluster IPs must pass this node. Services
// that ask for it are left out: the word says what it needs, and explain names a reply that takes another way.
func (j *judgement) unmasqueraded(t Table) {
	if !j.host.ClusterIPsKeepClients {
		return
	}
	var first *Service
	n := 0
	for i := range t.Services.Len() {
		s := t.Services.At(i)
		if len(s.ClusterIPs) == 0 || s.KeepsClients || !s.Type.Serves() || s.Origin.File == "" {
			continue
		}
		if n++; first == nil || s.Origin.compare(first.Origin) < 0 {
			first = s
		}
	}
	if n == 0 {
		return
	}
	others := ""
	if n > 1 {
		others = fmt.Sprintf(" (here and in %d more)", n-1)
	}
	j.doubt(first, "cluster IP without clusterCIDR or masqueradeAll%s: endpoints see the client's address, so their "+
		"replies must be routed back through this node", others)
}
