package file

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// clients returns the Clients of a draft, to be filled in.
func (s *draft) clients() *sources.Clients {
	if s.Clients == nil {
		s.Clients = new(sources.Clients)
	}
	return s.Clients
}

// networks reads networks and names of lists.
func networks(at func(*sources.Clients) (*[]netip.Prefix, *[]string)) func(*draft, node) error {
	return func(s *draft, n node) error {
		if length, _ := n.Len(); length > sources.MostNetworks {
			return fmt.Errorf("has %d networks, and at most %d are read here: put them into a list, a file in the folder of "+
				`lists, and write "@NAME"`, length, sources.MostNetworks)
		}
		prefixes, lists := at(s.clients())
		err := s.d.list(n, `CIDRs, or "@NAME" for a list`, func(n node) {
			text, _ := n.Text()
			if name, ok := strings.CutPrefix(text, "@"); !ok {
				if p, ok := s.d.network(n); ok {
					*prefixes = append(*prefixes, p)
				}
			} else if isListName(name) {
				*lists = append(*lists, strings.Clone(name))
			} else {
				s.d.refuse(n, "%s %.80q: a list's name is that of its file, %s", n.Key, text, listNames)
			}
		})
		*prefixes = sources.PrefixesOf(*prefixes)
		slices.Sort(*lists)
		*lists = slices.Compact(*lists)
		return err
	}
}

var (
	readAllow = networks(func(c *sources.Clients) (*[]netip.Prefix, *[]string) { return &c.Allow, &c.AllowLists })
	readDeny  = networks(func(c *sources.Clients) (*[]netip.Prefix, *[]string) { return &c.Deny, &c.DenyLists })
)

// network is a CIDR, which is masked as an API server does it, with a warning. It returns false if it refuses it.
func (d *decoder) network(n node) (netip.Prefix, bool) {
	p, err := prefix.Read(n)
	if err != nil {
		d.refuseValue(n, err)
		return p, false
	}
	if p != p.Masked() {
		given, _ := n.Text()
		d.warn(n, "%s %q has bits beyond its prefix length: taken as %q", n.Key, given, p.Masked())
	}
	return p.Masked(), true
}

// rate is a number of connections in a unit of time.
var rate = fields.Parsed(fields.KindRate, `a rate such as "50/s"`, sources.ParseRate, sources.Rate.String)

var burst = fields.Int(1, sources.MostRate)

const closed = "closed"

var whenFull = word("open", closed)

var limitFields = fields.Table[sources.Clients]{
	fields.Define("newConnections", fields.At(func(c *sources.Clients) *sources.Rate { return &c.Rate }, rate),
		"", `how many new connections the service takes in a second, minute or hour: "50/s", "300/m", "1000/h"; of UDP a `+
			"client's first packet counts; absent: no limit"),
	fields.Define("burst", fields.Value[sources.Clients]{Kind: burst.Kind, Min: burst.Min, Max: burst.Max,
		Set: func(c *sources.Clients, n node) error {
			b, err := burst.Read(n)
			c.Burst = uint32(b)
			return err
		}},
		"", "how many of them may come at once; absent: those of one second, at least 5, but not more than newConnections "+
			"has"),
	fields.Define("connections", fields.At(func(c *sources.Clients) *uint32 { return &c.Connections }, connections),
		"", "how many connections may be open at once; 0: no limit"),
	fields.Define("perClient", fields.At(func(c *sources.Clients) *bool { return &c.PerClient }, fields.Bool),
		"false", "each client address, of IPv6 each /64, has these limits for itself"),
	fields.Define("reject", fields.At(func(c *sources.Clients) *bool { return &c.Reject }, fields.Bool),
		"false", "clients that may not connect, also for allow and deny, are told so, by a TCP reset or by ICMP; "+
			"false: their packets are dropped"),
	fields.Define("whenFull", fields.Value[sources.Clients]{Kind: whenFull.Kind, Words: whenFull.Words,
		Set: func(c *sources.Clients, n node) error {
			w, err := whenFull.Read(n)
			c.Closed = w == closed
			return err
		}},
		`"open"`, "with perClient: what becomes of clients for which there is no room to count: open: they have no limit; "+
			"closed: they get no connections"),
}

func readLimits(s *draft, n node) error {
	table(s.d, n, limitFields, s.clients())
	return nil
}

// checkClients refuses what has no effect, and fills in the burst.
func (s *draft) checkClients(n node) {
	c := s.Clients
	if c == nil {
		return
	}
	allow, _ := n.Under("allow")
	if length, ok := allow.Len(); ok && length == 0 {
		s.d.refuse(allow, "allow is empty: leave it out to let everyone in")
	}
	limits, _ := n.Under("limits")
	rate, listed := limits.Has("newConnections"), len(c.Allow)+len(c.AllowLists)+len(c.Deny)+len(c.DenyLists) > 0
	limited := rate || c.Limited()
	for _, x := range []struct {
		key, others string
		alone       bool
	}{
		{"burst", "newConnections", c.Burst != 0 && !rate},
		{"perClient = true", "newConnections or connections", c.PerClient && !limited},
		{`whenFull = "closed"`, "perClient = true", c.Closed && !c.PerClient},
		{"reject = true", "newConnections, connections, allow or deny", c.Reject && !limited && !listed},
	} {
		if x.alone {
			s.d.refuse(limits, "limits: %s has no effect without %s", x.key, x.others)
		}
	}
	if !limited && !listed {
		s.Clients = nil
	}
	if c.Burst == 0 {
		c.Burst = c.Rate.Burst()
	}
}

// encodeClients writes the keys for clients.
func (e *encoder) encodeClients(c *sources.Clients) {
	if c == nil {
		return
	}
	named := func(prefixes []netip.Prefix, lists []string) []string {
		return append(quoted(prefixes), each(lists, func(name string) string { return fields.Text("@" + name) })...)
	}
	e.list("allow", named(c.Allow, c.AllowLists))
	e.list("deny", named(c.Deny, c.DenyLists))
	var t tableWriter
	if c.Rate.N != 0 {
		t.text("newConnections", c.Rate.String())
	}
	if c.Burst != c.Rate.Burst() {
		t.number("burst", uint64(c.Burst))
	}
	t.number("connections", uint64(c.Connections))
	for _, flag := range []struct {
		name string
		set  bool
	}{{"perClient", c.PerClient}, {"reject", c.Reject}} {
		if flag.set {
			t.key(flag.name, strconv.FormatBool(true))
		}
	}
	if c.Closed {
		t.text("whenFull", closed)
	}
	if t.pairs != nil {
		e.key("limits", t.String())
	}
}

// isListName reports whether a file in the folder of lists is a list. What editors, packages and downloads leave behind
// has a dot or another sign in its name.
func isListName(name string) bool {
	return name != "" && len(name) <= 63 && strings.Trim(name, "-_") == name && strings.TrimFunc(name, func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_'
	}) == ""
}

const listNames = "at most 63 letters, digits, '-' and '_', with a letter or digit at both ends"

// noNetworks is the line of a list that has none on purpose.
const noNetworks = "none"

// decodeList reads a list: a network or an address on each line. "#" begins a comment. It returns the list of the last
// reading if that has the same networks.
func decodeList(before reading, path, name string, data []byte) (now reading, problems []sources.Problem) {
	origin := sources.Origin{Source: sources.Files, File: path}
	list := &sources.List{Name: name, Origin: origin}
	n := 0
	for text := range strings.Lines(string(data)) {
		n++
		text, _, _ = strings.Cut(text, "#")
		if text = strings.TrimSpace(text); text == "" || text == noNetworks {
			continue
		}
		p, err := parseNetwork(text)
		at := sources.Problem{Origin: origin}
		at.Origin.Line = n
		switch {
		case err != nil:
			at.Message = err.Error()
			problems = append(problems, at)
		case len(list.Prefixes) == sources.MostPrefixes:
			at.Message = fmt.Sprintf("more than %d networks, and a list has at most that many: join neighbours, or make two "+
				"lists", sources.MostPrefixes)
			problems = append(problems, at)
		default:
			if p != p.Masked() {
				at.Message = fmt.Sprintf("%q has bits beyond its prefix length: taken as %q", text, p.Masked())
				now.warnings = append(now.warnings, at)
			}
			list.Prefixes = append(list.Prefixes, p)
			continue
		}
		if len(problems) > maxProblems || err == nil {
			break
		}
	}
	list.Prefixes = slices.Clip(sources.PrefixesOf(list.Prefixes))
	if was := before.table.Lists; len(was) == 1 && slices.Equal(was[0].Prefixes, list.Prefixes) {
		list = was[0]
	}
	now.text, now.table.Lists = fields.DigestOf(data), sources.Lists{list}
	return now, few(problems)
}

// parseNetwork reads a CIDR or an address.
func parseNetwork(text string) (netip.Prefix, error) {
	if len(text) > 80 {
		return netip.Prefix{}, fmt.Errorf("%.80q...: a line of a list has one network or address", text)
	}
	if strings.Contains(text, "/") {
		return fields.ParsePrefix(text, "")
	}
	a, err := fields.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%w, nor a CIDR", err)
	}
	if a.Zone() != "" {
		return netip.Prefix{}, errors.New("an address of a list has no zone")
	}
	return netip.PrefixFrom(a, a.BitLen()), nil
}

// lostOf returns what a change of a list takes away. Half a line may be a network, and a larger one than all of it.
func lostOf(before sources.Table, list *sources.List, data []byte) (l loss) {
	for _, was := range before.Lists {
		for _, p := range was.Prefixes {
			if _, has := slices.BinarySearchFunc(list.Prefixes, p, netip.Prefix.Compare); !has {
				return loss{parts: 1, first: "list " + list.Name}
			}
		}
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		return loss{parts: 1, first: "list " + list.Name}
	}
	return l
}
