package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/sources"
)

// Services are the answers about every address and port of some services: from outside,
// from the node and from a backend.
type Services struct {
	Answers []Answer `json:"answers"`
}

// Service explains the services of a name, NAME or NAMESPACE/NAME. Without one the error
// says so.
func Service(f Facts, name string) (Services, error) {
	all := Services{Answers: []Answer{}}
	found := false
	for i := range f.Fronts.Table.Services.Len() {
		s := f.Fronts.Table.Services.At(i)
		if s.Name != name && !sources.SameName(s.FullName(), name) {
			continue
		}
		found = true
		for k := range f.Fronts.Fronts {
			if x := &f.Fronts.Fronts[k]; x.Service == int32(i) {
				all.Answers = append(all.Answers, f.everywhere(x)...)
			}
		}
	}
	switch {
	case !found:
		return all, fmt.Errorf("no service %s", name)
	case len(all.Answers) == 0:
		return all, fmt.Errorf("service %s has no address that this node serves", name)
	}
	return all, nil
}

// everywhere explains packets to a front. Where one cannot come from is left out: a node
// without a network of the family, a service without backends elsewhere.
func (f *Facts) everywhere(x *frontend.Front) (all []Answer) {
	from := []struct {
		Origin
		source string
	}{{FromOutside, ""}, {FromNode, Node}, {FromBackend, f.backendOf(x)}}
	proto, to := f.reachedBy(x)
	if !to.IsValid() {
		return nil
	}
	for _, o := range from {
		if o.Origin == FromBackend && o.source == "" {
			continue
		}
		p, err := f.Packet(proto, to, o.source, "")
		if err != nil {
			continue
		}
		p.Mark = x.Key.Mark()
		a := Explain(*f, p)
		a.Origin = o.Origin
		all = append(all, a)
	}
	return all
}

// reachedBy is the protocol and destination of packets to a front. That of a firewall mark is not known: an
// address of the node stands for it, which is zero if the node has none of the family.
func (f *Facts) reachedBy(x *frontend.Front) (kernel.Proto, netip.AddrPort) {
	if !x.Traits.Has(frontend.Marked) {
		return x.Key.Proto, x.Key.AddrPort()
	}
	for _, own := range f.Kernel.Node.Addrs {
		if a := own.Prefix.Addr(); kernel.FamilyOf(a) == x.Key.Family() && a.IsGlobalUnicast() {
			return kernel.TCP, netip.AddrPortFrom(a, anyPort)
		}
	}
	return kernel.TCP, netip.AddrPort{}
}

// backendOf returns the first backend of a front that is not on this node, "" without one.
func (f *Facts) backendOf(x *frontend.Front) string {
	for _, b := range f.Fronts.Backends(x) {
		if a := f.Fronts.Addr(int(x.Service), b).Addr(); kernel.FamilyOf(a) == x.Key.Family() && f.local(a) == "" {
			return a.String()
		}
	}
	return ""
}

// sentence sums the answers up: that about the packet that matters most, if one is not served.
func (s Services) sentence() string {
	worst := s.Worst()
	depends := func(a Answer) bool { return strings.Contains(a.Sentence, ", if ") }
	switch {
	case worst == Served && slices.ContainsFunc(s.Answers, depends):
		return "served: every packet below, if what its line says holds"
	case worst == Served:
		return "served: every packet below"
	}
	i := slices.IndexFunc(s.Answers, func(a Answer) bool { return a.Fate == worst })
	return s.Answers[i].Packet + ": " + s.Answers[i].Sentence
}

// String is one sentence, and a table with a line for each answer.
func (s Services) String() string {
	c := &screen.Columns{}
	c.Heading("SERVICE", "ADDRESS", "FROM", "RESULT")
	for _, a := range s.Answers {
		to, _, _ := strings.Cut(a.Packet[strings.Index(a.Packet, " -> ")+4:], " in ")
		proto, _, _ := strings.Cut(a.Packet, " ")
		where := proto + " " + to
		if _, mark, marked := strings.Cut(a.Packet, " mark "); marked {
			to, _, _ = strings.Cut(to, " mark ")
			where = "fwmark " + mark + " at " + to
		}
		c.Row(screen.Cell{Text: a.Service}, screen.Cell{Text: where}, screen.Cell{Text: string(a.Origin)},
			screen.Cell{Text: a.Sentence})
	}
	return screen.Clean(s.sentence()) + "\n" + strings.Join(c.Lines(0, false), "\n") + "\n"
}

// Worst is the fate that matters most: that of a packet which is not served at all, else
// partly, unsure, else served.
func (s Services) Worst() Fate {
	order := []Fate{Served, Unsure, Partly}
	worst := Served
	for _, a := range s.Answers {
		at := slices.Index(order, a.Fate)
		if at < 0 {
			return a.Fate
		}
		worst = order[max(at, slices.Index(order, worst))]
	}
	return worst
}
