package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The canonical text is what the kernel's own tools print: sysctl -a, ipset
// save, iptables-save, ip -batch, ipvsadm-save -n. What no tool prints is in
// directives, comments to those tools, that begin with "#: ".
const directive = "#: "

// String is the sysctl -a form: net.ipv4.vs.conntrack = 1.
func (s Sysctl) String() string { return s.Name + " = " + s.Value }

// appendSysctls writes a directive behind a parameter that keeps other values.
func appendSysctls(b *strings.Builder, sysctls []Sysctl) {
	for _, s := range sysctls {
		b.WriteString(s.String() + "\n")
		if s.AtLeast {
			b.WriteString(directive + "at-least\n")
		}
		if s.Over != "" {
			b.WriteString(directive + "over " + strconv.Quote(s.Over) + "\n")
		}
	}
}

// String is ipvsadm's: --set TCP TCPFIN UDP, in seconds, where 0 leaves a timeout
// as it is.
func (t Timeouts) String() string { return fmt.Sprintf("--set %d %d %d", t.TCP, t.TCPFin, t.UDP) }

func (t Timeouts) append(b *strings.Builder) {
	if t != (Timeouts{}) {
		b.WriteString(t.String() + "\n")
	}
}

// String is the ipset save form.
func (s Set) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "create %s %s", s.Name, s.Type)
	switch {
	case s.Type == BitmapPort:
		b.WriteString(" range 0-65535")
	case s.Type.Base() == BitmapPort:
	case s.Family == IPv6:
		fmt.Fprintf(&b, " family inet6 maxelem %d", s.MaxElem)
	default:
		fmt.Fprintf(&b, " family inet maxelem %d", s.MaxElem)
	}
	if s.Options != "" {
		b.WriteString(" " + s.Options)
	}
	if s.References > 0 {
		fmt.Fprintf(&b, " references %d", s.References)
	}
	return b.String()
}

// String is the ipset save form.
func (e Entry) String() string { return "add " + e.Set + " " + e.Member() }

// Member is the entry as ipset prints it, without its set.
func (e Entry) Member() string {
	switch {
	case !e.Addr.IsValid():
		return strconv.Itoa(int(e.Port))
	case e.Proto == 0:
		return e.Addr.String()
	}
	s := fmt.Sprintf("%s,%s:%d", e.Addr, e.Proto, e.Port)
	switch {
	case !e.Second.IsValid():
		return s
	case e.Second.IsSingleIP():
		return s + "," + e.Second.Addr().String()
	}
	return s + "," + e.Second.String()
}

// String is the ipset restore form.
func (s Swap) String() string { return "swap " + s.From + " " + s.To }

// String says where the chain is and how many rules it has; Text has the rules.
func (c Chain) String() string {
	n := 0
	if c.Rules != "" {
		n = 1 + strings.Count(c.Rules, "\n")
	}
	return fmt.Sprintf("chain %s %s %s: %d rules", strings.ToLower(c.Family.String()), c.Table, c.Name, n)
}

// BuiltIn says whether the chain is one of the kernel's, in which only our
// jumps are ours.
func (c Chain) BuiltIn() bool {
	switch c.Name {
	case "PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING":
		return true
	}
	return false
}

// Text is the chain in the iptables-save form.
func (c Chain) Text() string {
	var b strings.Builder
	if !c.BuiltIn() {
		fmt.Fprintf(&b, ":%s - [0:0]\n", c.Name)
	}
	c.appendRules(&b)
	return b.String()
}

func (c Chain) appendRules(b *strings.Builder) {
	if c.Rules == "" {
		return
	}
	for rule := range strings.SplitSeq(c.Rules, "\n") {
		fmt.Fprintf(b, "-A %s %s\n", c.Name, rule)
	}
}

// String is the ip -batch form.
func (l Link) String() string { return "link add " + l.Name + " type " + l.Type }

// String is the ip -batch form.
func (a Addr) String() string {
	return fmt.Sprintf("addr add %s/%d dev %s", a.Addr, a.Addr.BitLen(), a.Link)
}

// String is the ip -batch form.
func (r Route) String() string {
	return fmt.Sprintf("route add local %s/%d dev lo table local proto %d", r.Addr, r.Addr.BitLen(), RouteProtocol)
}

// String is the ip -batch form.
func (n Neighbor) String() string { return fmt.Sprintf("neigh add proxy %s dev %s", n.Addr, n.Link) }

// String is the conntrack -D form.
func (f Flow) String() string {
	v, r := f.Key.Virtual, f.Key.Addr
	return fmt.Sprintf("conntrack -D -p %s --orig-dst %s --orig-port-dst %d --reply-src %s --reply-port-src %d",
		v.Proto, v.Addr.Addr(), v.Addr.Port(), r.Addr(), r.Port())
}

// String is ipvsadm's: -t 10.96.0.20:80.
func (k VirtualKey) String() string {
	flag := "-t"
	switch k.Proto {
	case UDP:
		flag = "-u"
	case SCTP:
		flag = "--sctp-service"
	}
	return flag + " " + k.Addr.String()
}

// String is ipvsadm's: -t 10.96.0.20:80 -r 10.2.1.10:8080.
func (k RealKey) String() string { return k.Virtual.String() + " -r " + k.Addr.String() }

// String is the ipvsadm-save form.
func (v Virtual) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "-A %s -s %s", v.Key, v.Scheduler)
	if v.Flags&FlagPersistent != 0 {
		fmt.Fprintf(&b, " -p %d", v.Timeout)
	}
	if int(v.Netmask) != v.Key.Family().Bits() {
		fmt.Fprintf(&b, " -M %d", v.Netmask)
	}
	if v.Flags&FlagOnePacket != 0 {
		b.WriteString(" -o")
	}
	var sched []string
	for i, f := range schedFlags {
		if v.Flags&f != 0 {
			sched = append(sched, fmt.Sprintf("flag-%d", i+1))
		}
	}
	if sched != nil {
		b.WriteString(" -b " + strings.Join(sched, ","))
	}
	return b.String()
}

var schedFlags = [...]uint32{FlagSched1, FlagSched2, FlagSched3}

// forwardFlags are ipvsadm's letters by Forward; it has none for LocalNode.
var forwardFlags = [...]string{Masquerade: "-m", LocalNode: "-l", Tunnel: "-i", Direct: "-g"}

// String is the ipvsadm-save form.
func (r Real) String() string {
	return fmt.Sprintf("-a %s %s -w %d", r.Key, forwardFlags[r.Forward&3], r.Weight)
}

// String is the whole state in canonical text. The same state gives the same
// bytes; ParseObserved reads it back.
func (s State) String() string {
	var b strings.Builder
	s.Policy.append(&b)
	appendSysctls(&b, s.Sysctls)
	appendLines(&b, s.Sets)
	appendLines(&b, s.Entries)
	s.appendChains(&b)
	appendLines(&b, s.Links)
	s.appendVIPs(&b)
	s.Timeouts.append(&b)
	s.appendVirtuals(&b, nil)
	return b.String()
}

func (s State) appendVIPs(b *strings.Builder) {
	appendLines(b, s.Addrs)
	appendLines(b, s.Routes)
	appendLines(b, s.Neighbors)
}

func appendLines[T fmt.Stringer](b *strings.Builder, objects []T) {
	for _, o := range objects {
		b.WriteString(o.String())
		b.WriteByte('\n')
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
}

var toolNames = map[Family]string{IPv4: "iptables", IPv6: "ip6tables"}

func (s State) appendChains(b *strings.Builder) {
	for rest := s.Chains; len(rest) > 0; {
		first := rest[0]
		n := slices.IndexFunc(rest, func(c Chain) bool { return c.Family != first.Family || c.Table != first.Table })
		if n < 0 {
			n = len(rest)
		}
		fmt.Fprintf(b, "%s%s\n*%s\n", directive, toolNames[first.Family], first.Table)
		for _, c := range rest[:n] {
			if !c.BuiltIn() {
				fmt.Fprintf(b, ":%s - [0:0]\n", c.Name)
			}
		}
		for _, c := range rest[:n] {
			c.appendRules(b)
		}
		b.WriteString("COMMIT\n")
		rest = rest[n:]
	}
}

// appendVirtuals prints each virtual server with its real servers after it.
func (s State) appendVirtuals(b *strings.Builder, conns []Conns) {
	r := 0
	for _, v := range s.Virtuals {
		b.WriteString(v.String())
		b.WriteByte('\n')
		for ; r < len(s.Reals) && s.Reals[r].Key.Virtual.Compare(v.Key) <= 0; r++ {
			b.WriteString(s.Reals[r].String())
			if r < len(conns) && conns[r] != (Conns{}) {
				fmt.Fprintf(b, " # active %d inactive %d persist %d", conns[r].Active, conns[r].Inactive, conns[r].Persist)
			}
			b.WriteByte('\n')
		}
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
	if !o.Clock.IsZero() {
		line("clock %s", o.Clock.Format(time.RFC3339Nano))
	}
	if o.Fresh {
		line("fresh")
	}
	o.Node.append(line)
	for _, s := range o.Saved {
		line("saved %s before %s ours %s", s.Name, strconv.Quote(s.Before), strconv.Quote(s.Ours))
	}
	for _, k := range o.Owned {
		line("owned %s", k)
	}
	for _, v := range o.Record.Made {
		line("made %s", v)
	}
	for _, v := range o.Record.Left {
		line("left %s", v)
	}
	for _, d := range o.Drains {
		line("drain %s %s", d.Since.Format(time.RFC3339Nano), d.Real)
	}
	for _, n := range o.Answered {
		line("answered %s dev %s", n.Addr, n.Link)
	}
	o.appendProbed(line)
	for _, b := range o.Firewall {
		b.append(line)
	}
	if o.FWMark != 0 {
		line("fwmark %d", o.FWMark)
	}
	o.Policy.append(&b)
	appendSysctls(&b, o.Sysctls)
	appendLines(&b, o.Sets)
	appendLines(&b, o.Entries)
	o.appendChains(&b)
	appendLines(&b, o.Links)
	o.appendVIPs(&b)
	o.Timeouts.append(&b)
	o.appendVirtuals(&b, o.Conns)
	return b.String()
}

// words are the bridge's name and the tools whose rules its packets pass.
func (b Bridge) words() []string {
	words := []string{b.Link}
	for _, f := range []Family{IPv4, IPv6} {
		if b.Filtered(f) {
			words = append(words, toolNames[f])
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
	if n.BrNetfilter {
		line("br_netfilter")
	}
	for _, b := range n.Bridges {
		line("bridge %s", strings.Join(b.words(), " "))
	}
	if n.Release != (Release{}) {
		line("release %d.%d", n.Release.Major, n.Release.Minor)
	}
}
