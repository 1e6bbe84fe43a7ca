package events

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/proxy/announce"
)

// ofAnnouncements lists which VIPs were announced and withdrawn between two syncs. VIPs of one
// reason are one event.
func ofAnnouncements(before, now []announce.VIP) []Event {
	was := map[netip.Addr]announce.VIP{}
	for _, v := range before {
		was[v.Addr] = v
	}
	type change struct {
		Kind
		why string
	}
	var list []Event
	at := map[change]int{} // index in list
	add := func(k Kind, v announce.VIP, why string) {
		i, more := at[change{k, why}]
		if !more {
			i = len(list)
			at[change{k, why}] = i
			list = append(list, Event{Kind: k})
		}
		e := &list[i]
		e.Services = append(slices.Clone(e.Services), v.Services...)
		slices.Sort(e.Services)
		e.Services = slices.Compact(e.Services)
		// The reason stays at the end.
		e.Text = strings.TrimPrefix(strings.TrimSuffix(e.Text, why)+", "+v.Addr.String(), ", ") + why
	}
	for _, v := range now {
		old, known := was[v.Addr]
		delete(was, v.Addr)
		if v.Moved {
			ofMoved(old, v, add)
			continue
		}
		switch {
		case v.Announced && (!known || !old.Announced || old.Metric != v.Metric):
			add(Announced, v, announcedText(v))
		case known && old.Announced && !v.Announced:
			add(Withdrawn, v, ": "+v.Reason)
		}
	}
	for _, v := range before {
		if _, gone := was[v.Addr]; gone && v.Announced && !v.Moved {
			add(Withdrawn, v, ": no service that is to be announced has it")
		}
	}
	return list
}

// ofMoved adds what keepalived did with a VIP, and what it is told of it.
func ofMoved(old, v announce.VIP, add func(Kind, announce.VIP, string)) {
	switch {
	case v.Link != "" && old.Link == "":
		add(VIPHere, v, " on "+v.Link)
	case v.Link == "" && old.Link != "":
		add(VIPAway, v, " is no longer on "+old.Link)
	}
	switch known := old.Addr.IsValid() && !old.Uncounted && !v.Uncounted; {
	case known && v.Announced && !old.Announced:
		add(Offered, v, "")
	case known && !v.Announced && old.Announced:
		add(NotOffered, v, ": "+v.Reason)
	}
}

func announcedText(v announce.VIP) string {
	text := ""
	if v.Metric != 0 {
		text = fmt.Sprintf(" with metric %d", v.Metric)
	}
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	return text
}
