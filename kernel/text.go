package kernel

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// The canonical text is what the kernel's own tools print: sysctl -a, ipset save,
// iptables-save, ip -batch, ipvsadm-save -n. Directives have what no tool prints. They
// are comments to these tools and begin with "#: ".
const directive = "#: "

// String is the whole state in canonical text. The same state gives the same
// bytes; ParseObserved reads it back.
func (s State) String() string {
	var b strings.Builder
	o := Observed{State: s}
	o.appendState(&b)
	return b.String()
}

func (o *Observed) appendState(b *strings.Builder) {
	o.Policy.append(b)
	for k := range Rows {
		Rows[k].append(b, o)
	}
}

func (p Policy) append(b *strings.Builder) {
	if p.Hold {
		b.WriteString(directive + "hold\n")
	}
	if p.DeleteUnknown {
		b.WriteString(directive + "delete-unknown\n")
	}
	if p.TakeLeft {
		b.WriteString(directive + "take-left\n")
	}
	if p.DrainVirtuals {
		b.WriteString(directive + "drain-virtuals\n")
	}
	if p.DrainRules {
		b.WriteString(directive + "drain-rules\n")
	}
	p.appendClaims(b)
	for _, c := range p.ExcludeCIDRs {
		fmt.Fprintf(b, "%sexclude %s\n", directive, c)
	}
	if p.DrainTimeout != 0 {
		fmt.Fprintf(b, "%sdrain-timeout %s\n", directive, p.DrainTimeout)
	}
	for _, d := range p.Drains {
		fmt.Fprintf(b, "%sdrain-timeout %s %s\n", directive, d.Timeout, d.Virtual)
	}
	for _, k := range p.Cut {
		fmt.Fprintf(b, "%scut %s\n", directive, k)
	}
	for _, k := range p.Quiesced {
		fmt.Fprintf(b, "%squiesced %s\n", directive, k)
	}
}

// String is the whole reading in canonical text, with directives for what the
// tools do not print. ParseObserved reads it back.
func (o Observed) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, directive+format+"\n", args...) }
	if o.Names != (Names{}) {
		line("names %s %s", o.Names.Prefix, o.Names.Device)
	}
	if o.Fresh {
		line("fresh")
	}
	o.Node.append(line)
	for _, s := range o.Saved {
		line("saved %s before %s ours %s", s.Name, strconv.Quote(s.Before), strconv.Quote(s.Ours))
	}
	if o.Relayed {
		line("relayed")
	}
	for _, k := range o.InIPVS {
		line("in-ipvs %s", k)
	}
	for _, v := range o.Record.Made {
		line("made %s", v)
	}
	for _, d := range o.Record.Digests {
		line("%s", strings.TrimPrefix(d.String(), directive))
	}
	for _, v := range o.Record.Left {
		line("left %s", v)
	}
	for _, n := range o.Answered {
		line("answered %s dev %s", n.Addr, n.Link)
	}
	for _, b := range o.Firewall {
		b.append(line)
	}
	for _, table := range o.Hidden {
		line("hidden %s", table)
	}
	if o.Unseen != "" {
		line("unseen %s", o.Unseen)
	}
	o.appendState(&b)
	return b.String()
}

// words returns the bridge's name and the tools whose rules its packets pass.
func (b Bridge) words() []string {
	words := []string{b.Link}
	for _, f := range []Family{IPv4, IPv6} {
		if b.Filtered(f) {
			words = append(words, f.Tool())
		}
	}
	return words
}

func (n Node) append(line func(string, ...any)) {
	if n.Name != "" {
		line("node %s", n.Name)
	}
	if n.Zone != "" {
		line("zone %s", n.Zone)
	}
	for _, a := range n.Addrs {
		line("address %s dev %s", a.Prefix, a.Link)
	}
	for _, a := range []netip.Addr{n.Primary4, n.Primary6} {
		if a.IsValid() {
			line("primary %s", a)
		}
	}
	for _, a := range n.Gateways {
		line("gateway %s", a)
	}
	for _, link := range n.Advertised {
		line("advertised %s", link)
	}
	if n.BrNetfilter {
		line("br_netfilter")
	}
	for _, b := range n.Bridges {
		line("bridge %s", strings.Join(b.words(), " "))
	}
	if n.MTU != 0 {
		line("mtu %d", n.MTU)
	}
	if n.Release != (Release{}) {
		line("release %d.%d", n.Release.Major, n.Release.Minor)
	}
}
