package sources

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Incumbents are the services that were served, and who held contested claims. With them the next run gives the same
// services the same addresses.
type Incumbents struct {
	Services []Incumbent // sorted
	Held     []Holding   // sorted
}

// Incumbent is a service that was served, with its source and file.
type Incumbent struct{ Source, File, Service string }

// Holding is a claim and the full name of the service that has it.
type Holding struct {
	Claim
	Service string
}

func (a Incumbent) compare(b Incumbent) int {
	return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.File, b.File),
		strings.Compare(a.Service, b.Service))
}

func (h Holding) compare(o Holding) int {
	return cmp.Or(h.Claim.Compare(o.Claim), strings.Compare(h.Service, o.Service))
}

// incumbents returns those of a merged table.
func incumbents(t Table, held []Holding) Incumbents {
	in := Incumbents{Services: make([]Incumbent, t.Services.Len()), Held: held}
	for i := range t.Services.Len() {
		s := t.Services.At(i)
		in.Services[i] = Incumbent{s.Origin.Source, s.Origin.File, s.FullName()}
	}
	SortFunc(in.Services, Incumbent.compare)
	return in
}

func (in Incumbents) served(s *Service) bool {
	_, found := slices.BinarySearchFunc(in.Services, Incumbent{s.Origin.Source, s.Origin.File, s.FullName()},
		Incumbent.compare)
	return found
}

// grown is not known of an earlier run.
func (in Incumbents) grown(*Service) bool { return false }

func (in Incumbents) holders(rivals map[Claim][]want) map[Holding]bool {
	held := make(map[Holding]bool, len(in.Held))
	for _, h := range in.Held {
		if _, contested := rivals[h.Claim]; contested {
			held[h] = true
		}
	}
	return held
}

// String returns the text form: a line for each source and file, followed by its services, and a line for each
// contested claim.
func (in Incumbents) String() string {
	var b strings.Builder
	var from Incumbent
	for i, s := range in.Services {
		if s.Source != from.Source || s.File != from.File || i == 0 {
			fmt.Fprintf(&b, "from %s %s\n", strconv.Quote(s.Source), strconv.Quote(s.File))
		}
		b.WriteString(s.Service + "\n")
		from = s
	}
	for _, h := range in.Held {
		fmt.Fprintf(&b, "held %s by %s\n", h.fields(), h.Service)
	}
	return b.String()
}

// fields is the text form of a claim in a record.
func (c Claim) fields() string {
	switch {
	case c.Protocol == FWMark:
		return fmt.Sprintf("mark %d", c.mark())
	case c.Endpoint:
		return "endpoint " + c.Addr.String()
	case c.Port == 0:
		return "vip " + c.Addr.String()
	case !c.Addr.IsValid():
		return fmt.Sprintf("node %d/%s", c.Port, c.Protocol)
	}
	return fmt.Sprintf("port %s/%s", netip.AddrPortFrom(c.Addr, c.Port), c.Protocol)
}

// ParseIncumbents parses the text form. It refuses any text that String would not return.
func ParseIncumbents(text string) (Incumbents, error) {
	var in Incumbents
	var from Incumbent
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		var err error
		switch word, rest, _ := strings.Cut(line, " "); {
		case word == "from":
			from, err = parseFrom(rest)
		case word == "held":
			var h Holding
			h, err = parseHolding(rest)
			in.Held = append(in.Held, h)
		case from == Incumbent{}:
			err = errors.New("a service of no source")
		default:
			from.Service, err = parseName(line)
			in.Services = append(in.Services, from)
		}
		if err != nil {
			return Incumbents{}, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return Incumbents{}, err
	}
	if in.String() != text {
		return Incumbents{}, errors.New("is not as it was written")
	}
	if !slices.IsSortedFunc(in.Services, Incumbent.compare) {
		return Incumbents{}, errors.New("is not sorted")
	}
	return in, nil
}

func parseFrom(text string) (from Incumbent, err error) {
	source, err := strconv.QuotedPrefix(text)
	if err != nil {
		return from, errors.New("a source that is not quoted")
	}
	if from.Source, err = strconv.Unquote(source); err != nil {
		return from, errors.New("a source that is not quoted")
	}
	if from.File, err = strconv.Unquote(strings.TrimPrefix(text[len(source):], " ")); err != nil {
		return from, errors.New("a file that is not quoted")
	}
	return from, nil
}

func parseName(text string) (string, error) {
	namespace, name, _ := strings.Cut(text, "/")
	if !isLabel(namespace) || !isLabel(name) {
		return "", errors.New("not the name of a service")
	}
	return text, nil
}

func parseHolding(text string) (h Holding, err error) {
	what, service, _ := strings.Cut(text, " by ")
	if h.Service, err = parseName(service); err != nil {
		return h, err
	}
	kind, value, _ := strings.Cut(what, " ")
	number, protocol, _ := strings.Cut(value, "/")
	switch kind {
	case "endpoint", "vip":
		h.Endpoint = kind == "endpoint"
		if h.Addr, err = netip.ParseAddr(value); err != nil {
			return h, errors.New("not an address")
		}
		return h, nil
	case "mark":
		mark, err := strconv.ParseUint(value, 10, 32)
		if h.Claim = markClaim(uint32(mark)); err != nil || mark == 0 {
			return h, errors.New("not a firewall mark")
		}
		return h, nil
	case "node":
		port, err := strconv.ParseUint(number, 10, 16)
		if h.Port = uint16(port); err != nil || port == 0 {
			return h, errors.New("not a port")
		}
	case "port":
		at, err := netip.ParseAddrPort(number)
		if h.Addr, h.Port = at.Addr(), at.Port(); err != nil {
			return h, errors.New("not an address and port")
		}
	default:
		return h, errors.New("not a claim")
	}
	if h.Protocol, err = ParseProtocol(protocol); err != nil {
		return h, errors.New("not a protocol")
	}
	return h, nil
}
