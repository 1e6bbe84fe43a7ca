package frontend

import "github.com/svcproxy/svcproxy/sources"

// Counts says how many endpoints serve a front. Announcements, health check node ports,
// status and metrics read it, so that none of them counts by a rule of its own.
type Counts struct {
	// Serving backends get new connections: their weight is not 0.
	Serving int32
	// Up of them are up. The others serve although they are down, because too few are up.
	Up int32
	// Backups of those that are up stand in for others.
	Backups int32
	// Of endpoints could be up. Not counted are backups, unless they serve, and endpoints
	// that the traffic policy or topology hints keep for other nodes.
	Of int32
}

// Counts returns how many endpoints serve a front.
func (f *Frontends) Counts(x *Front) Counts {
	return f.services.at(int(x.Service)).lists[x.slot].Counts
}

// Up reports whether a backend of the service with index i gets new connections and is up.
func (f *Frontends) Up(i int, b Backend) bool {
	return up(&f.Table.Services.At(i).Endpoints[b.Endpoint])
}

// up reports whether an endpoint gets new connections and is up.
func up(e *sources.Endpoint) bool { return e.Weight > 0 && !e.Spared }

// lost counts the endpoints of a service port that are no candidates although they
// have the port: they are cut, or their address cannot be served. Backups do not count.
type lost struct{ all, local int32 }

func (n *lost) count(e *sources.Endpoint, local bool) {
	if e.Backup {
		return
	}
	n.all++
	if local {
		n.local++
	}
}

// count counts the backends of a service port, and the wanted candidates.
func (l *lister) count(s *sources.Service, backends []Backend, wanted func(*candidate) bool, lost int32) Counts {
	c := Counts{Of: lost}
	for _, b := range backends {
		e := &s.Endpoints[b.Endpoint]
		if e.Weight > 0 {
			c.Serving++
		}
		if up(e) {
			c.Up++
			if e.Backup {
				c.Backups++
			}
		}
	}
	for i := range l.found {
		if x := &l.found[i]; !x.endpoint.Backup && wanted(x) {
			c.Of++
		}
	}
	c.Of = max(c.Of, c.Up)
	return c
}

// instead returns what serves a front whose policy is Local and of whose endpoints on
// this node none serves, so that those of other nodes do. Those of them that are not
// ready are not missed here.
func (c chosen) instead(local Counts) chosen {
	c.Of = max(local.Of, int32(len(c.backends)))
	return c
}

// inviting reports whether load balancers should send new connections to this
// node because of a candidate. A terminating endpoint still gets what arrives
// here, so that nothing is lost, but load balancers should choose other nodes.
// One that is down and serves because too few are up is to health checks what an
// endpoint that is not ready is to kube-proxy. publishNotReadyAddresses overrides
// the conditions, terminating included: Kubernetes then calls a terminating
// endpoint ready.
func (x *candidate) inviting(s *sources.Service) bool {
	return x.local && x.ready && up(x.endpoint) && (!x.endpoint.Terminating || s.PublishNotReadyAddresses)
}
