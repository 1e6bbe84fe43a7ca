package sources

import "net/netip"

// newcomers are the services of a table that came or changed since an earlier table, and what they claim. Where nothing
// was contested before, only their claims can be.
type newcomers struct {
	at        map[int]bool // indexes in the table
	claims    map[Claim]bool
	vips      map[netip.Addr]bool
	endpoints map[netip.Addr]bool // also those that services got which did not change otherwise
}

// add notes the service with an index. It reports whether that has its name and its claims alone among the newcomers.
func (n *newcomers) add(services Services, i int) bool {
	s := services.At(i)
	if i > 0 && CompareNames(services.At(i-1), s) >= 0 || i+1 < services.Len() && CompareNames(s, services.At(i+1)) >= 0 {
		return false
	}
	if n.at == nil {
		n.at, n.claims, n.vips = map[int]bool{}, map[Claim]bool{}, map[netip.Addr]bool{}
	}
	n.at[i] = true
	own := map[Claim]bool{}
	for a := range s.Addresses {
		own[a.Claim()] = true
	}
	for c := range own {
		if n.claims[c] {
			return false
		}
		n.claims[c] = true
	}
	for _, a := range s.VIPs {
		n.vips[a] = true
	}
	for j := range s.Endpoints {
		n.endpoints[s.Endpoints[j].Addr] = true
	}
	return true
}

// contested reports whether a service of the table may claim what a newcomer does, or have as a VIP what
// another one has as an endpoint.
func (n *newcomers) contested(t Table) bool {
	for i, s := range t.Services.All() {
		for _, a := range s.VIPs {
			if n.endpoints[a] {
				return true
			}
		}
		for j := range s.Endpoints {
			if n.vips[s.Endpoints[j].Addr] {
				return true
			}
		}
		if n.at[i] {
			continue
		}
		for a := range s.Addresses {
			if n.claims[a.Claim()] {
				return true
			}
		}
	}
	return false
}
