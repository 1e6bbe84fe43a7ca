package ipvs

import (
	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

const (
	sloppyTCP     = "net.ipv4.vs.sloppy_tcp"
	sloppySCTP    = "net.ipv4.vs.sloppy_sctp"
	syncThreshold = kernel.SyncThreshold
)

// shared returns the kernel parameters for connections that began on another node.
func shared(f *frontend.Frontends, c mode.Config) []kernel.Sysctl {
	var s []kernel.Sysctl
	set := func(name, value string) { s = append(s, kernel.Sysctl{Name: name, Value: value}) }
	tcp, sctp := sloppy(f, c)
	if tcp {
		set(sloppyTCP, "1")
	}
	if sctp {
		set(sloppySCTP, "1")
	}
	if c.SyncThreshold != "" {
		set(syncThreshold, c.SyncThreshold)
	}
	return s
}

// sloppy reports for which protocols IPVS has to take a connection in its middle. With mh every node gives a
// client the same endpoint, and an endpoint that gets packets unchanged does not notice another node. A
// masqueraded connection is known to the node that it began on alone.
func sloppy(f *frontend.Frontends, c mode.Config) (tcp, sctp bool) {
	on := c.SloppyTCP == mode.SloppyOn
	if !on && (c.SloppyTCP == mode.SloppyOff || !c.Announced) {
		return false, false
	}
	for i := range f.Fronts {
		x := &f.Fronts[i]
		if !on && (f.Scheduler(x) != "mh" || f.Forward(x) == sources.Masquerade) {
			continue
		}
		tcp = tcp || x.Key.Proto == kernel.TCP
		sctp = sctp || x.Key.Proto == kernel.SCTP
	}
	return tcp, sctp
}
