package kernel

import (
	"fmt"
	"strings"
)

// Link is a network device.
type Link struct{ Name, Type string }

var links = list[Link]{
	get:     func(s State) []Link { return s.Links },
	set:     func(s *State, all []Link) { s.Links = all },
	compare: Link.Compare,
	read:    parseLink,
}

// Kind is KindLink.
func (Link) Kind() Kind { return KindLink }

// Compare orders by name.
func (l Link) Compare(o Link) int { return strings.Compare(l.Name, o.Name) }

// String is the ip -batch form.
func (l Link) String() string { return "link add " + l.Name + " type " + l.Type }

func (l Link) command(v Verb, was Object) string {
	old, _ := was.(Link)
	switch {
	case v == Remove:
		return "link del " + l.Name
	case v == Change && old.Name != l.Name:
		return "link set " + old.Name + " name " + l.Name
	}
	return l.String()
}

// parseLink reads: link add NAME type TYPE.
func parseLink(f []string) (Link, error) {
	if len(f) != 5 || f[1] != "add" || f[3] != "type" {
		return Link{}, fmt.Errorf("want: link add NAME type TYPE")
	}
	return Link{Name: f[2], Type: f[4]}, nil
}
