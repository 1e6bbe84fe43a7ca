package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// VIPsMove reports whether keepalived moves VIPs.
func (s *Status) VIPsMove() bool {
	return slices.ContainsFunc(s.Announced, func(a Announced) bool { return a.Moved })
}

// VIPsHere returns how many VIPs keepalived has given to this node. It cannot be told to move those that do not count.
func (s *Status) VIPsHere() (n int) {
	for _, a := range s.Announced {
		if a.Link != "" && !a.Uncounted {
			n++
		}
	}
	return n
}

// fate is what becomes of open connections when their VIP moves to another node.
type fate string

// The fates. Measured in testdata/traffic: TestPairOfMasqueradingNodes.
const (
	keptBySync fate = "go on, by connection sync"
	keptByMH   fate = "go on, if the other node has the same backends (scheduler mh)"
	keptSloppy fate = `go on only with ipvs.sloppyTCP = "on" on the other node`
	endHidden  fate = "end: keepClientAddress is false"
	endUnsent  fate = "end: there is no connection sync, and the scheduler is not mh"
	endByRules fate = "end: only mode ipvs can keep them"
)

var fates = []fate{keptBySync, keptByMH, keptSloppy, endHidden, endUnsent, endByRules}

// Handover says, a line each, what becomes of open connections when keepalived moves the VIPs of this node. It is nil
// if none is here.
func (s *Status) Handover() []string {
	if s.VIPsHere() == 0 {
		return nil
	}
	names := map[fate][]string{}
	for i := range s.Services {
		service := &s.Services[i]
		for j := range service.Virtuals {
			v := &service.Virtuals[j]
			moves := func(a Announced) bool { return a.Link != "" && a.Address == v.Address.Addr() }
			if f := s.fateOf(service, v); slices.ContainsFunc(s.Announced, moves) && !slices.Contains(names[f], service.Name) {
				names[f] = append(names[f], service.Name)
			}
		}
	}
	lines := []string{"keepalived will move the VIPs to the other node"}
	for _, f := range fates {
		if list := names[f]; list != nil {
			more := ""
			if n := len(list) - maxHeldBack; n > 0 {
				list, more = list[:maxHeldBack], fmt.Sprintf(" and %d more", n)
			}
			lines = append(lines, fmt.Sprintf("connections of %s%s %s", strings.Join(list, ", "), more, f))
		}
	}
	return lines
}

// fateOf is the fate of connections to a virtual server.
func (s *Status) fateOf(service *Service, v *Virtual) fate {
	synced := slices.ContainsFunc(s.ConnSync, func(c ConnSync) bool {
		return c.Role == kernel.SyncMaster.String() && c.State == ConnSyncRunning
	})
	switch {
	case s.Uncounted:
		return endByRules
	case v.Forward == "" && v.Kind != KindClusterIP && service.ExternalPolicy != "Local":
		return endHidden
	case synced:
		return keptBySync
	case v.Scheduler != "mh":
		return endUnsent
	case v.Forward != "":
		return keptByMH
	}
	return keptSloppy
}
