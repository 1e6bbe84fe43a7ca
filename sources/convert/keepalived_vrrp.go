package convert

import (
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
)

// VRRP is what keepalived goes on with when svcproxy has its virtual servers.
type VRRP struct {
	// Conf is keepalived.conf without virtual servers, in one file. Its instances follow the track_file svcproxy, which
	// the caller must add. "" if import did not read all of it. It may contain secrets.
	Conf     string
	Priority int  // the largest of its instances
	Quorum   bool // a program was told of a lost quorum, so that VIPs moved
}

// followed is the name of the track_file that svcproxy writes.
const followed = "svcproxy"

// Priorities of keepalived.
const (
	usualPriority = 100 // of an instance that gives none
	ownerPriority = 255 // of the owner of an address, which follows no file
)

// goesOn returns what keepalived goes on with, nil if it moves no addresses.
func (k *keepalived) goesOn(all []*statement, whole bool) *VRRP {
	if !k.vrrp {
		return nil
	}
	r := &VRRP{}
	if i := slices.IndexFunc(k.virtuals, func(v virtual) bool { return v.moves }); i >= 0 {
		r.Quorum = true
		k.change(k.virtuals[i].at, "quorum_up and quorum_down move no VIPs any more, and what they wrote for keepalived to "+
			"follow stays as it is: announce.vipPriority takes their place")
	}
	var b strings.Builder
	grouped, groups := syncGroups(all)
	for _, s := range all {
		switch s.words[0] {
		case "virtual_server", "virtual_server_group", "SSL":
			continue
		case "global_defs": // with lvs_flush keepalived would remove svcproxy's virtual servers
			s = s.without(func(b *statement) bool { return strings.HasPrefix(b.words[0], "lvs_") })
		case "vrrp_sync_group":
			s = s.follows()
		case "vrrp_instance":
			own := k.priority(s)
			r.Priority = max(r.Priority, own)
			if grouped[s.value(1)] {
				break // its group follows: weights of members do not count
			}
			groups++
			if own < ownerPriority {
				s = s.follows()
			}
		}
		s.write(&b, "")
	}
	if whole && !strings.Contains(b.String(), `\`) { // what keepalived escapes is not read as keepalived does
		r.Conf = b.String()
	}
	if groups > 1 && len(k.virtuals) > 0 {
		k.change(all[0].at, "instances of VRRP that move one by one: svcproxy has one number for all VIPs of a node, so "+
			"all of them move when one cannot be served")
	}
	return r
}

// priority returns the priority of an instance, and notes what keeps its VIPs where they are.
func (k *keepalived) priority(s *statement) int {
	own := usualPriority
	for _, b := range s.block {
		switch b.words[0] {
		case "priority":
			own, _ = strconv.Atoi(b.value(1))
		case "nopreempt":
			k.change(b.at, "nopreempt: VIPs stay on a node that svcproxy node drain drains; without it, and with equal "+
				"priorities, they move once")
		}
	}
	if own == ownerPriority {
		k.change(s.at, "priority %d: VIPs stay on this node as long as it runs, whatever it can serve", own)
	}
	return own
}

// syncGroups returns the instances that are in a group, and how many groups there are.
func syncGroups(all []*statement) (grouped map[string]bool, groups int) {
	grouped = map[string]bool{}
	for _, s := range all {
		if s.words[0] != "vrrp_sync_group" {
			continue
		}
		groups++
		for _, b := range s.block {
			for _, member := range b.block {
				for _, name := range member.words {
					grouped[name] = grouped[name] || b.words[0] == "group"
				}
			}
		}
	}
	return grouped, groups
}

// without returns a statement without some of its block.
func (s *statement) without(leave func(*statement) bool) *statement {
	return &statement{at: s.at, words: s.words, block: slices.DeleteFunc(slices.Clone(s.block), leave)}
}

// follows returns an instance or a group that follows svcproxy's file.
func (s *statement) follows() *statement {
	track := &statement{words: []string{"track_file"}, block: []*statement{{words: []string{followed}}}}
	return &statement{at: s.at, words: s.words, block: append(slices.Clone(s.block), track)}
}

// write writes a statement as a configuration has it.
func (s *statement) write(b *strings.Builder, indent string) {
	b.WriteString(indent)
	for i, w := range s.words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(asWord(w))
	}
	if s.block == nil {
		b.WriteByte('\n')
		return
	}
	b.WriteString(" {\n")
	for _, inner := range s.block {
		inner.write(b, indent+"\t")
	}
	b.WriteString(indent + "}\n")
}

// asWord puts a word in quotes that would be several, or a brace or a comment, without them.
func asWord(w string) string {
	switch {
	case w != "" && !strings.ContainsAny(w, " \t#!{}\"'"):
		return w
	case strings.Contains(w, `"`):
		return "'" + w + "'"
	}
	return `"` + w + `"`
}

// counts says how many backends a node needs to keep the VIP: none where no program was told of a lost quorum, as then
// the VIP did not move.
func (v *virtual) counts() {
	v.counted = true
	if !v.moves {
		return
	}
	least, most := uint32(maxWeight), uint32(1)
	for _, r := range v.reals {
		if !r.backup {
			least, most = min(least, r.weight), max(most, r.weight)
		}
	}
	v.minHealthy = min((max(v.quorum, 1)+int(most)-1)/int(most), sources.MostEndpoints)
	if v.quorum > 1 && least < most {
		v.note(v.at, "quorum %d: weights differ, so it is taken as %d endpoints, whatever their weight", v.quorum,
			v.minHealthy)
	}
}
