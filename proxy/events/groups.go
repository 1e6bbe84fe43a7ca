package events

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/sources"
)

// group identifies the endpoints of a service port in one IP family.
type group struct {
	service, port string
	protocol      sources.Protocol
	ipv6          bool
}

// modeKinds are the kinds of events when a group gets a mode. The others have none.
var modeKinds = map[health.Mode]Kind{
	health.FailOpen: Panic, health.BelowLimit: Panic, health.OnBackups: Backups, health.FailClosed: AllDown,
}

// Synced adds an event for each group in which others serve from now on, several services in one event. Call it after
// each sync with the groups whose mode is not Normal: indexes are those of the table.
func (h *Health) Synced(t sources.Table, unusual []health.Unusual) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(unusual) == 0 && len(h.modes) == 0 {
		return
	}
	was, now := h.modes, make(map[group]health.Group, len(unusual))
	var changed []group
	for _, u := range unusual {
		g := group{t.Services.At(u.Service).DisplayName(), u.Port, u.Protocol, u.IPv6}
		if now[g] = u.Group; was[g].Mode != u.Mode {
			changed = append(changed, g)
		}
	}
	for g := range was {
		if _, still := now[g]; !still {
			changed = append(changed, g)
		}
	}
	h.modes = now
	if len(changed) > 0 {
		h.flush()
	}
	byKind := map[Kind][]group{}
	for _, g := range changed {
		for _, kind := range turned(was[g].Mode, now[g].Mode) {
			byKind[kind] = append(byKind[kind], g)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		h.addGroups(kind, byKind[kind], now)
	}
}

// turned returns the kinds of events of a group whose mode changed.
func turned(was, is health.Mode) (kinds []Kind) {
	before, after := modeKinds[was], modeKinds[is]
	switch {
	case before == after:
		return nil
	case before == Panic:
		kinds = append(kinds, PanicOver)
	case before != "" && after == "":
		kinds = append(kinds, EnoughUp)
	}
	if after != "" {
		kinds = append(kinds, after)
	}
	return kinds
}

// addGroups adds an event for each service, or one for all.
func (h *Health) addGroups(kind Kind, groups []group, now map[group]health.Group) {
	sources.SortFunc(groups, func(a, b group) int {
		return strings.Compare(a.service+" "+a.text(), b.service+" "+b.text())
	})
	e := Event{Time: time.Now(), Kind: kind}
	if len(groups) <= foldAbove {
		for _, g := range groups {
			e.Text, e.Services = g.text()+modeText(now[g]), []string{g.service}
			h.add(e)
		}
		return
	}
	for _, g := range groups {
		e.Services = append(e.Services, g.service)
	}
	e.Services = slices.Compact(e.Services)
	e.Text = fmt.Sprintf("%s of %s", sources.Count(len(groups), "port"), sources.Count(len(e.Services), "service"))
	h.add(e)
}

// text names the group within its service: "port http: ". It is "" for the only port.
func (g group) text() string {
	switch {
	case g.port == "" && g.ipv6:
		return "IPv6: "
	case g.port == "":
		return ""
	case g.ipv6:
		return "port " + g.port + " over IPv6: "
	}
	return "port " + g.port + ": "
}

// modeText says how a group serves: "0 of 3 up, fail open". One that is gone from the list serves as usual.
func modeText(g health.Group) string {
	if g.Mode == health.Normal {
		return "as usual"
	}
	return fmt.Sprintf("%d of %d up, %s", g.Up, g.Of, g.Mode)
}
