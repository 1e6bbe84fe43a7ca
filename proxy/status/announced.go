package status

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/sources"
)

// Announced is a VIP that routing daemons may be told of.
type Announced struct {
	Address   netip.Addr `json:"address"`
	Services  []string   `json:"services"`
	Announced bool       `json:"announced"`
	// Metric is that of its route, absent in mode vrrp.
	Metric uint32 `json:"metric,omitempty"`
	// Reason says why it is not announced, or why with drainMetric.
	Reason string `json:"reason,omitempty"`
	// Until is when a VIP that was removed is no longer served, absent for others.
	Until time.Time `json:"until,omitzero"`
	// Moved: keepalived moves it. Announced then says that this node can serve it. Link is the node's link that has it,
	// absent while another node has it. Uncounted: keepalived is told nothing of it.
	Moved     bool   `json:"moved,omitempty"`
	Link      string `json:"link,omitempty"`
	Uncounted bool   `json:"uncounted,omitempty"`
}

func announcedOf(vips []announce.VIP) []Announced {
	var list []Announced
	for _, v := range vips {
		list = append(list, Announced{v.Addr, v.Services, v.Announced, v.Metric, v.Reason, v.Until, v.Moved, v.Link,
			v.Uncounted})
	}
	return list
}

// Waits says what a reload waits for: VIPs that were removed and are still served, or else the sync.
func (s *Status) Waits() string {
	for _, a := range s.Announced {
		if !a.Until.IsZero() && s.Sync.Running == nil {
			return fmt.Sprintf("%s was withdrawn, and is served for %v more, until routers know", a.Address,
				a.Until.Sub(s.Time).Round(time.Second))
		}
	}
	return s.Sync.Now()
}

// text is a VIP in words.
func (a *Announced) text() string {
	state := "not announced"
	switch {
	case a.Uncounted:
		state = "does not count for keepalived"
	case a.Moved && a.Announced:
		state = "offered to keepalived"
	case a.Moved:
		state = "not offered to keepalived"
	case a.Announced && a.Metric != 0:
		state = fmt.Sprintf("announced with metric %d", a.Metric)
	case a.Announced:
		state = "announced"
	}
	if a.Reason != "" {
		state += ": " + a.Reason
	}
	if a.Link != "" {
		state = "on " + a.Link + ", " + state
	}
	return state
}

// maxAttracted bounds the VIPs and links that the overview names in its line.
const maxAttracted = 4

// announced says which VIPs attract clients to this node: those that are announced, or that keepalived has moved here.
// It is "" if there is none to announce.
func (p *page) announced() string {
	var vips, links []string
	all := p.st.Announced
	if len(all) == 0 {
		return ""
	}
	for _, a := range all {
		switch {
		case a.Link != "":
			vips, links = append(vips, a.Address.String()), append(links, a.Link)
		case a.Announced && !a.Moved:
			vips = append(vips, a.Address.String())
		}
	}
	n := len(vips)
	switch {
	case !all[0].Moved:
		return fmt.Sprintf("announced: %d of %s", n, sources.Count(len(all), "VIP")) + inBrackets(vips)
	case n == 0 && p.st.Daemon.Drain != nil:
		return "VIPs here: none (drained)"
	case n == 0:
		return "VIPs here: none (backup)"
	case n == len(all):
		slices.Sort(links)
		return fmt.Sprintf("VIPs here: %d of %d", n, n) + inBrackets(slices.Compact(links))
	}
	for i := range vips {
		vips[i] += " on " + links[i]
	}
	return fmt.Sprintf("VIPs here: %d of %d", n, len(all)) + inBrackets(vips)
}

// inBrackets lists the first maxAttracted; "" for none.
func inBrackets(list []string) string {
	if len(list) == 0 {
		return ""
	}
	if more := len(list) - maxAttracted; more > 0 {
		list = append(list[:maxAttracted:maxAttracted], fmt.Sprintf("and %d more", more))
	}
	return " (" + strings.Join(list, ", ") + ")"
}

// maxHeldBack bounds the VIPs that are listed in the overview.
const maxHeldBack = 10

// heldBack lists the VIPs that are not announced as usual, with the reason.
func (p *page) heldBack() []string {
	var lines []string
	for i := range p.st.Announced {
		a := &p.st.Announced[i]
		if a.Reason == "" {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s (%s): %s", a.Address, strings.Join(a.Services, ", "), a.text()))
	}
	if more := len(lines) - maxHeldBack; more > 0 {
		lines = append(lines[:maxHeldBack], fmt.Sprintf("and %d more", more))
	}
	return lines
}

// announcedFor lists the VIPs of a service that may be announced.
func (p *page) announcedFor(s *Service) {
	var lines []string
	style := screen.Good
	for i := range p.st.Announced {
		a := &p.st.Announced[i]
		if slices.Contains(a.Services, s.Name) {
			lines = append(lines, fmt.Sprintf("%s: %s", a.Address, a.text()))
			if a.Reason != "" {
				style = screen.Warn
			}
		}
	}
	p.list("routing daemons", style, lines)
}
