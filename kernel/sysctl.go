package kernel

import (
	"fmt"
	"strconv"
	"strings"
)

// Sysctl is one kernel parameter. Name has dots: net.ipv4.vs.conntrack.
type Sysctl struct {
	Name, Value string
	// AtLeast, in a wanted state, keeps a larger number that is already set.
	AtLeast bool
	// Over, in a wanted state and unless it is "", names the kernel's default: every
	// other value that is already set is kept.
	Over string
}

var sysctls = list[Sysctl]{
	get:     func(s State) []Sysctl { return s.Sysctls },
	set:     func(s *State, all []Sysctl) { s.Sysctls = all },
	compare: Sysctl.Compare,
}

// Kind is KindSysctl.
func (Sysctl) Kind() Kind { return KindSysctl }

// Compare orders by name.
func (s Sysctl) Compare(o Sysctl) int { return strings.Compare(s.Name, o.Name) }

// String is the sysctl -a form: net.ipv4.vs.conntrack = 1.
func (s Sysctl) String() string { return s.Name + " = " + s.Value }

// appendSysctls writes each parameter, and a directive for AtLeast and for Over.
func appendSysctls(b *strings.Builder, o *Observed) {
	for _, s := range o.Sysctls {
		b.WriteString(s.String() + "\n")
		if s.AtLeast {
			b.WriteString(directive + "at-least\n")
		}
		if s.Over != "" {
			b.WriteString(directive + "over " + strconv.Quote(s.Over) + "\n")
		}
	}
}

// sysctl reads: NAME = VALUE.
func (p *parser) sysctl(line string) error {
	// The caller trimmed the line: an empty value has lost the space before it.
	name, value, ok := strings.Cut(line+" ", " = ")
	if !ok {
		return fmt.Errorf("%q: no tool prints this", line)
	}
	p.o.Sysctls = append(p.o.Sysctls, Sysctl{Name: name, Value: strings.TrimSpace(value)})
	return nil
}

// keeps reads "at-least", or "over VALUE", of the sysctl on the line before.
func (p *parser) keeps(word, value string) (err error) {
	n := len(p.o.Sysctls)
	if n == 0 {
		return fmt.Errorf("%s: want a sysctl in front of it", word)
	}
	s := &p.o.Sysctls[n-1]
	if word == "at-least" {
		s.AtLeast = true
	} else if s.Over, err = strconv.Unquote(value); err != nil {
		return fmt.Errorf("%s %s: %w", word, value, err)
	}
	return nil
}
