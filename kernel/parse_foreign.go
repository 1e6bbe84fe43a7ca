package kernel

import "slices"

// foreign reports whether a line is about something that readings do not hold.
// These are members of sets of unused types, such as MAC addresses.
func (p *parser) foreign(f []string) bool {
	switch {
	case len(f) < 2:
	case f[0] == "add":
		i := slices.IndexFunc(p.o.Sets, func(s Set) bool { return s.Name == f[1] })
		return i >= 0 && p.o.Sets[i].foreignType()
	}
	return false
}

// dropForeign drops the members of sets of foreign types whose set came after them.
func (s *State) dropForeign() {
	foreign := make(map[string]bool)
	for _, t := range s.Sets {
		if t.foreignType() {
			foreign[t.Name] = true
		}
	}
	s.Entries = s.Entries.Where(func(e Entry) bool { return !foreign[e.Set] })
}
