package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// diffSets compares the sets and, set by set, their entries.
func (d *differ) diffSets() {
	want, have := d.want.Entries, d.have.Entries
	walkAll(d.want.Sets, d.have.Sets, kernel.Set.Compare, func(w, h *kernel.Set) {
		switch {
		case w == nil:
			d.unwantedSet(*h, have.Of(h.Name))
		case h == nil:
			d.newSet(kernel.AddSets, *w, want.Of(w.Name))
		default:
			d.sameSet(*w, *h, want.Of(w.Name), have.Of(h.Name))
		}
	})
}

// walkAll is kernel.Walk, but also reports equal pairs.
func walkAll[T any](want, have []T, compare func(a, b T) int, pair func(w, h *T)) {
	i, j := 0, 0
	for i < len(want) || j < len(have) {
		c := -1
		if i == len(want) {
			c = 1
		} else if j < len(have) {
			c = compare(want[i], have[j])
		}
		switch {
		case c < 0:
			pair(&want[i], nil)
			i++
		case c > 0:
			pair(nil, &have[j])
			j++
		default:
			pair(&want[i], &have[j])
			i++
			j++
		}
	}
}

// newSet creates a set and fills it.
func (d *differ) newSet(p kernel.Phase, w kernel.Set, entries kernel.Entries) {
	if w.Type != kernel.BitmapPort {
		w.MaxElem = max(w.MaxElem, uint32(entries.Len()))
		w.Size = max(w.Size, uint32(entries.Len()))
	}
	d.add(p, w)
	build, _ := d.entryPhases(w.Name)
	for e := range entries.All() {
		if build == kernel.OpenVIPs && hasVirtual(&d.have.State, e.Key()) {
			// The chains that guard its VIP are written before OpenVIPs. It is served already, after a change of
			// back ends, so it is open from then on.
			d.add(kernel.AddGuards, e)
			continue
		}
		d.add(build, e)
	}
}

// unwantedSet removes a set. Entries that open a VIP are removed before its virtual
// server goes; other entries disappear with their set.
func (d *differ) unwantedSet(h kernel.Set, entries kernel.Entries) {
	if strings.HasPrefix(h.Name, d.have.Names.TempSets()) {
		d.drop(kernel.DropLeftovers, h)
		return
	}
	if _, teardown := d.entryPhases(h.Name); teardown == kernel.CloseVIPs {
		for e := range entries.All() {
			switch {
			case !d.movesToRelay(e):
				d.remove(kernel.CloseVIPs, e)
			case e.Goto != "": // a chain that a map leads to cannot be removed
				d.remove(kernel.RemoveGuards, e)
			}
		}
	}
	if d.have.Names.IsSet(h.Name, h.Family, kernel.Limited) { // its chains go before it
		for e := range entries.All() {
			d.remove(kernel.RemoveGuards, e)
		}
	}
	d.remove(kernel.RemoveSets, h)
}

// movesToRelay reports whether an entry opens what the relay serves from now on. Rules are removed after
// entries, and would refuse new connections meanwhile.
func (d *differ) movesToRelay(e kernel.Entry) bool {
	return d.have.Relayed && hasVirtual(&d.want, e.Key())
}

// sameSet compares the entries of a set that is wanted and exists. It replaces the set
// if it has a different shape or too little room.
func (d *differ) sameSet(w, h kernel.Set, want, have kernel.Entries) {
	if w.Type != h.Type && w.Type != h.Type.Base() || w.Family != h.Family {
		if d.holds(h) {
			return
		}
		d.misuse(w.Family)
		d.drop(kernel.DropMisusedSets, h)
		d.newSet(kernel.AddSets, w, want)
		return
	}
	if room := roomFor(w, h, want, have); room > h.MaxElem || w.Type != h.Type || h.Options != "" ||
		h.MaxElem < min(w.MaxElem, kernel.Capacity(0)) {
		d.replace(w, room, have)
	}
	var build, teardown kernel.Phase
	known, ranges := false, d.have.Native && w.Type == kernel.HashIPPortNet
	want.Unshared(have, func(want, have []kernel.Entry) {
		if ranges {
			have = d.makeRoom(want, have)
		}
		kernel.Walk(want, have, sameMember, kernel.Entry.Compare, func(w, h *kernel.Entry) {
			if !known {
				build, teardown = d.entryPhases(set(w, h))
				known = true
			}
			switch {
			case h == nil:
				d.add(build, *w)
			case w == nil && teardown == build: // the list is known
				d.drop(teardown, *h)
			case w == nil:
				d.remove(teardown, *h)
			case !d.decided(*h) && d.leads(h): // to endpoints that no source has delivered yet
			default: // another value in a map
				d.change(build, *h, *w)
			}
		})
	})
}

// eachDifference is kernel.Walk over the entries of a set.
func eachDifference(want, have kernel.Entries, differs func(w, h *kernel.Entry)) {
	want.Unshared(have, func(want, have []kernel.Entry) {
		kernel.Walk(want, have, sameMember, kernel.Entry.Compare, differs)
	})
}

// makeRoom removes entries whose prefix contains a wanted one, or is inside it, in the transaction that adds that one:
// the kernel refuses both at once. It returns the others.
func (d *differ) makeRoom(want, have []kernel.Entry) []kernel.Entry {
	return keep(have, func(h kernel.Entry) bool {
		i, _ := slices.BinarySearchFunc(want, h, byFirst)
		for _, w := range want[max(0, i-1):min(len(want), i+1)] { // they do not overlap with each other
			if w.Key() == h.Key() && w.Second != h.Second && w.Second.Overlaps(h.Second) {
				d.drop(kernel.AddGuards, h)
				return false
			}
		}
		return true
	})
}

// byFirst orders entries of one set by their key and the first address of their prefix.
func byFirst(a, b kernel.Entry) int {
	return cmp.Or(a.Key().Compare(b.Key()), a.Second.Addr().Compare(b.Second.Addr()))
}

// roomFor returns the largest number of entries of a set while a plan runs: the wanted
// ones and the present ones.
func roomFor(w, h kernel.Set, want, have kernel.Entries) uint32 {
	sum := max(uint32(want.Len()), w.Size) + uint32(have.Len())
	if w.Type == kernel.BitmapPort || sum <= h.MaxElem { // the usual case
		return min(sum, h.MaxElem)
	}
	if want.Shares(have) {
		return uint32(have.Len())
	}
	onlyHave := 0
	eachDifference(want, have, func(w, h *kernel.Entry) {
		if w == nil {
			onlyHave++
		}
	})
	return max(uint32(want.Len()), w.Size) + uint32(onlyHave)
}

func set(w, h *kernel.Entry) string {
	if w != nil {
		return w.Set
	}
	return h.Set
}

// entryPhases returns the phases in which entries of a set are added and removed.
func (d *differ) entryPhases(set string) (build, teardown kernel.Phase) {
	switch _, spec, _ := d.have.Names.SetSpec(set); {
	case spec.Opens:
		return kernel.OpenVIPs, kernel.CloseVIPs
	case spec.Type == kernel.HashNet: // one that goes may contain one that comes, which are in one transaction
		return kernel.AddGuards, kernel.AddGuards
	case spec.Name == kernel.Limited: // behind the chains that it leads to, before anything serves
		return kernel.WriteChains, kernel.RemoveGuards
	}
	return kernel.AddGuards, kernel.RemoveGuards
}

// misuse frees the sets of a family from all rules.
func (d *differ) misuse(f kernel.Family) {
	if f == kernel.IPv4 {
		d.reset4 = true
	} else {
		d.reset6 = true
	}
}

// replace replaces a set while rules use it: a temporary set gets the present entries,
// and both are swapped. New entries follow in their own phase, as in any other set.
func (d *differ) replace(w kernel.Set, room uint32, have kernel.Entries) {
	temp := w
	temp.Name = fmt.Sprintf("%s%d", d.have.Names.TempSets(), d.temps)
	if w.Type != kernel.BitmapPort {
		temp.MaxElem = max(w.MaxElem, kernel.Capacity(int(room)))
		temp.Size = room
	}
	d.temps++
	d.add(kernel.AddSets, temp)
	for e := range have.All() {
		e.Set = temp.Name
		d.add(kernel.AddSets, e)
	}
	d.put(kernel.AddSets, kernel.Op{Verb: kernel.Change, Object: kernel.Swap{From: temp.Name, To: w.Name}})
	d.drop(kernel.AddSets, temp)
}
