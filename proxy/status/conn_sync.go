package status

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// ConnSync is one of the kernel's daemons of connection sync.
type ConnSync struct {
	Role  string        `json:"role"` // master, backup
	Link  string        `json:"link"`
	ID    uint8         `json:"id"`
	Group netip.Addr    `json:"group"`
	Port  uint16        `json:"port"`
	TTL   uint8         `json:"ttl"`
	State ConnSyncState `json:"state"`
}

// ConnSyncState reports whether a daemon runs.
type ConnSyncState string

// The states of a daemon of connection sync.
const (
	ConnSyncRunning ConnSyncState = "running"
	ConnSyncForeign ConnSyncState = "foreign" // another program runs one with other values
	ConnSyncRefused ConnSyncState = "refused" // by the kernel
	ConnSyncWaiting ConnSyncState = "waiting" // the first sync is not over
)

// connSyncOf lists the wanted daemons.
func connSyncOf(now *kernel.State, in *Input, faults []Fault) []ConnSync {
	var all []ConnSync
	for _, d := range now.Daemons {
		c := ConnSync{Role: d.Role.String(), Link: d.Link, ID: d.ID, Group: d.Group, Port: d.Port, TTL: d.TTL,
			State: ConnSyncRunning}
		same := func(o kernel.SyncDaemon) bool { return o.Role == d.Role }
		switch {
		case in.Snapshot.Succeeded.IsZero() && !errors.As(in.Snapshot.Report.Err, new(*kernel.ApplyError)):
			c.State = ConnSyncWaiting
		case slices.ContainsFunc(in.Snapshot.Report.Plan.Daemons, same):
			c.State = ConnSyncForeign
		case slices.ContainsFunc(faults, func(f Fault) bool { return strings.Contains(f.Op, "--start-daemon "+c.Role) }):
			c.State = ConnSyncRefused
		}
		all = append(all, c)
	}
	return all
}

// connSync says which daemons run: "connection sync: master and backup on eth1, id 7".
func (p *page) connSync() string {
	all := p.st.ConnSync
	if len(all) == 0 {
		return ""
	}
	var roles []string
	for _, c := range all {
		role := c.Role
		if c.State != ConnSyncRunning {
			role += fmt.Sprintf(" (%s)", c.State)
		}
		roles = append(roles, role)
	}
	return fmt.Sprintf("connection sync: %s on %s, id %d, group %s", strings.Join(roles, " and "), all[0].Link, all[0].ID,
		netip.AddrPortFrom(all[0].Group, all[0].Port))
}
