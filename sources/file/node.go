package file

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// node is one value of the document.
type node = fields.Node

// decoder collects the problems of one document.
type decoder struct {
	origin   sources.Origin // without a line
	reading  bool           // a service, which draft names
	problems []sources.Problem
	warnings []sources.Problem

	draft      draft      // reused for each service
	draftCheck draftCheck // and for each health check

	size sources.Size // of the services read so far
	over bool         // the last one was too much

	named  namedChecks                                  // of the file
	checks map[sources.HealthCheck]*sources.HealthCheck // see share; nil until the first one
	before sources.Table                                // of the last reading of the file

	at     *fields.Section // that is being read; nil: lines are the document's
	others bool            // keys of the document that are not ours are not refused
}

// line is the line of the document where a value stands.
func (d *decoder) line(n node) int {
	if d.at == nil {
		return n.Line()
	}
	return d.at.Line(n.Line())
}

func (d *decoder) problem(n node, format string, args ...any) sources.Problem {
	p := sources.Problem{Origin: d.origin, Message: fmt.Sprintf(format, args...)}
	p.Origin.Line = n.Line()
	if d.reading {
		p.Service = d.draft.FullName()
	}
	return p
}

func (d *decoder) refuse(n node, format string, args ...any) {
	p := d.problem(n, format, args...)
	p.Origin.Line = d.line(n)
	d.problems = append(d.problems, p)
}

// refuseValue reports the error of a fields.Type.
func (d *decoder) refuseValue(n node, err error) { d.refuse(n, "%s %v", n.Key, err) }

// warn notes a warning with the line of the section.
func (d *decoder) warn(n node, format string, args ...any) {
	d.warnings = append(d.warnings, d.problem(n, format, args...))
}

// maxProblems is how many problems of a file are reported.
const maxProblems = 100

// full reports whether reading on is of no use: there are many problems, or the file is too large.
func (d *decoder) full() bool { return len(d.problems) > maxProblems || d.over }

// few returns the first problems in order of the text, and a last one that says that there are more.
func few(problems []sources.Problem) []sources.Problem {
	sources.SortProblems(problems)
	if len(problems) > maxProblems {
		problems = problems[:maxProblems+1]
		problems[maxProblems] = sources.Problem{Origin: problems[maxProblems].Origin,
			Message: fmt.Sprintf("more than %d problems: correct these first", maxProblems)}
	}
	return problems
}

// table reads a table and refuses each key that is not among the fields. It takes keys in the order of the
// fields, so that a file always has the same problems first.
func table[T any](d *decoder, n node, known fields.Table[T], into *T) {
	if !n.IsTable() {
		d.refuseValue(n, n.Mistyped("a table"))
		return
	}
	found, size := 0, n.Size()
	for i := 0; i < len(known) && found < size; i++ {
		if value, ok := n.Under(known[i].Name); ok {
			found++
			if err := known[i].Set(into, value); err != nil {
				d.refuseValue(value, err)
			}
		}
	}
	if found == size {
		return
	}
	names := known.Names()
	for _, key := range n.Keys() {
		if !slices.Contains(names, key) && !d.full() {
			value, _ := n.Under(key)
			d.unknown(value, names)
		}
	}
}

// elsewhere are keys for words of other load balancers, in lower case.
var elsewhere = map[string]string{
	"vip": "vips", "virtual_server": "vips", "virtual_ipaddress": "vips", "virtual": "vips", "bind": "vips",
	"listen":      "vips",
	"real_server": "backends", "real": "backends", "server": "backends", "servers": "backends", "upstream": "backends",
	"targets": "backends",
	"lb_algo": "scheduler", "lb_algorithm": "scheduler", "balance": "scheduler", "algorithm": "scheduler",
	"lb_kind": "forward", "gate": "forward", "masq": "forward",
	"check": "healthCheck", "checktype": "healthCheck", "health": "healthCheck",
	"persistence_timeout": "sessionAffinityTimeout", "persistent": "sessionAffinityTimeout",
	"uthreshold": "maxConnections", "u_threshold": "maxConnections", "maxconn": "maxConnections",
	"connection_limit": "maxConnections",
	"lthreshold":       "resumeConnections", "l_threshold": "resumeConnections", "minconnections": "resumeConnections",
	"persistence_granularity": "sessionAffinityPrefix4", "netmask": "sessionAffinityPrefix4",
	"granularity": "sessionAffinityPrefix4",
	"ops":         "onePacket", "one_packet": "onePacket", "one-packet": "onePacket",
	"sh-port": "schedulerFlags", "sh-fallback": "schedulerFlags", "mh-port": "schedulerFlags",
	"mh-fallback": "schedulerFlags",
	"flag-1":      "schedulerFlags", "flag-2": "schedulerFlags", "schedflags": "schedulerFlags",
	"sched-flags": "schedulerFlags",
	"ip":          "address", "host": "address", "sorry_server": "backends", "fallback": "backends",
}

func (d *decoder) unknown(n node, known []string) {
	meant := elsewhere[strings.ToLower(n.Key)]
	if !slices.Contains(known, meant) {
		meant = fields.Near(n.Key, known)
	}
	switch {
	case meant != "":
		d.refuse(n, "unknown key %q, did you mean %q?", n.Key, meant)
	case len(known) <= 10:
		d.refuse(n, "unknown key %q, the keys here are %s", n.Key, strings.Join(known, ", "))
	default:
		d.refuse(n, "unknown key %q, see services.toml(5) for the keys of a service", n.Key)
	}
}

// list calls item for each element of an array, or of an array of [[tables]], until there are too many
// problems. of names the elements in the error of another value.
func (d *decoder) list(n node, of string, item func(node)) error {
	length, ok := n.Len()
	if !ok {
		return n.Mistyped("an array of " + of)
	}
	for i := 0; i < length && !d.full(); i++ {
		item(n.Elem(i))
	}
	return nil
}

// addr is an IP address. Its error suggests what was probably meant.
var addr = fields.AddrOf(func(s string) (netip.Addr, error) {
	a, err := fields.ParseAddr(s)
	if err == nil {
		return a, nil
	}
	if ap, wrong := netip.ParseAddrPort(s); wrong == nil {
		err = fmt.Errorf("%w: write %q, the port belongs in ports", err, ap.Addr())
	} else if p, wrong := netip.ParsePrefix(s); wrong == nil {
		err = fmt.Errorf("%w: write %q, without a prefix length", err, p.Addr())
	}
	return a, err
})

// addr appends an address to a list, or refuses it.
func (d *decoder) addr(n node, into *[]netip.Addr) {
	a, err := addr.Read(n)
	if err != nil {
		d.refuseValue(n, err)
		return
	}
	*into = append(*into, a)
}

func (d *decoder) addrs(n node, into *[]netip.Addr) error {
	return d.list(n, "IP addresses", func(n node) { d.addr(n, into) })
}

// word is one of a few words. Its error leaves out the empty one.
func word[W ~string](known ...W) fields.Type[W] {
	return fields.Word(func(words []string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" }), ", ")
	}, known...)
}
