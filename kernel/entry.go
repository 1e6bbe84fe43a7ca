package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Entry is one member of a set, or a key of a map with its value. The set's type decides
// which fields count; the others are zero. Second is the third part of hash:ip,port,ip (a
// single address) and of hash:ip,port,net, and the network of hash:net, whose first address Addr is then.
type Entry struct {
	Set    string
	Addr   netip.Addr
	Proto  Proto
	Port   uint16
	Slot   uint16 // the last part of a key in a map of endpoints
	ToPort uint16 // the endpoint's port in such a map, whose address is Second; 0 elsewhere
	Second netip.Prefix
	Goto   string // the chain that a map of verdicts leads to
}

// Kind is KindEntry.
func (Entry) Kind() Kind { return KindEntry }

// Key is the virtual server that an entry of a hash:ip,port set names.
func (e Entry) Key() VirtualKey {
	return VirtualKey{Addr: e.Addr, Port: e.Port, Proto: e.Proto}
}

// To is the endpoint that an entry of a map of endpoints leads to, zero for others.
func (e *Entry) To() netip.AddrPort {
	if e.ToPort == 0 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(e.Second.Addr(), e.ToPort)
}

// Compare orders by set, then as VirtualKey does, then by slot and Second. The value in a map does not count.
func (e Entry) Compare(o Entry) int {
	if c := strings.Compare(e.Set, o.Set); c != 0 {
		return c
	}
	if c := e.Key().Compare(o.Key()); c != 0 {
		return c
	}
	if c := cmp.Compare(e.Slot, o.Slot); c != 0 || e.ToPort != 0 || o.ToPort != 0 {
		return c
	}
	if c := e.Second.Addr().Compare(o.Second.Addr()); c != 0 {
		return c
	}
	return cmp.Compare(e.Second.Bits(), o.Second.Bits())
}

// String is the ipset save form.
func (e Entry) String() string { return "add " + e.Set + " " + e.Member() }

// Member is the entry as ipset prints it, without its set. A map's has slot:N as the last part of its key, and its
// value behind a colon:
//
//	10.96.0.1,tcp:80 : goto KUBE-LB-3
//	10.96.0.1,tcp:80,slot:2 : 10.2.0.1:8080
//	tcp:30080 : goto KUBE-LB-3
func (e Entry) Member() string {
	switch {
	case e.ToPort != 0:
		return fmt.Sprintf("%s,slot:%d : %s", e.portMember(), e.Slot, e.To())
	case e.Goto != "":
		return e.portMember() + " : goto " + e.Goto
	case !e.Addr.IsValid() && e.Proto == 0:
		return strconv.Itoa(int(e.Port))
	case e.IsNet():
		return e.Second.String()
	case e.Proto == 0:
		return e.Addr.String()
	}
	s := e.portMember()
	switch {
	case !e.Second.IsValid():
		return s
	case e.Second.IsSingleIP():
		return s + "," + e.Second.Addr().String()
	}
	return s + "," + e.Second.String()
}

// IsNet reports whether the entry is one of hash:net.
func (e *Entry) IsNet() bool { return e.Proto == 0 && e.Second.IsValid() }

// NetEntry returns the entry of a network.
func NetEntry(set string, p netip.Prefix) Entry { return Entry{Set: set, Addr: p.Addr(), Second: p} }

// portMember is the part of a member up to its port.
func (e *Entry) portMember() string {
	proto := e.Proto.String()
	if e.Proto == FWMark {
		proto = "255"
	}
	return fmt.Sprintf("%s,%s:%d", e.Addr, proto, e.Port)
}

func (e Entry) command(v Verb, _ Object) string { return addOrDel(v, e) }

// parseEntry reads: add SET MEMBER.
func parseEntry(f []string) (Entry, error) {
	if len(f) < 3 {
		return Entry{}, fmt.Errorf("add: want a set and a member")
	}
	member := f[2]
	if len(f) > 4 && f[3] == ":" {
		member = strings.Join(f[2:], " ")
	}
	e, err := ParseMember(member)
	e.Set = f[1]
	return e, err
}

// ParseMember reads what Member prints.
func ParseMember(s string) (Entry, error) {
	key, value, isMap := strings.Cut(s, " : ")
	part := strings.Split(key, ",")
	if port, err := strconv.ParseUint(s, 10, 16); err == nil {
		return Entry{Port: uint16(port)}, nil
	}
	if p, err := netip.ParsePrefix(s); err == nil {
		if p != p.Masked() {
			return Entry{}, fmt.Errorf("member %q: want a network", s)
		}
		return NetEntry("", p), nil
	}
	var e Entry
	var err error
	if e.Addr, err = netip.ParseAddr(part[0]); err != nil || e.Addr.Zone() != "" {
		return Entry{}, fmt.Errorf("member %q: want an address first", s)
	}
	part = part[1:]
	if len(part) == 0 && !isMap {
		return e, nil
	}
	if len(part) == 0 {
		return Entry{}, fmt.Errorf("member %q: want protocol:port", s)
	}
	proto, port, _ := strings.Cut(part[0], ":")
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Entry{}, fmt.Errorf("member %q: want protocol:port", s)
	}
	e.Port = uint16(n)
	if e.Proto, err = ParseProto(proto); err != nil {
		return Entry{}, fmt.Errorf("member %q: %w", s, err)
	}
	switch {
	case isMap:
		err = e.parseValue(part[1:], value)
	case len(part) == 2:
		e.Second, err = parsePrefix(part[1])
	case len(part) > 2:
		err = errors.New("want at most three parts")
	}
	if err != nil {
		return Entry{}, fmt.Errorf("member %q: %w", s, err)
	}
	return e, nil
}

// parseValue reads the value of a map's entry, and the part of the key behind the port.
func (e *Entry) parseValue(more []string, value string) error {
	if to, ok := strings.CutPrefix(value, "goto "); ok {
		e.Goto = to
		if len(more) > 0 || to == "" || strings.ContainsAny(to, " \t") {
			return errors.New("want goto and a chain behind protocol:port")
		}
		return nil
	}
	to, err := netip.ParseAddrPort(value)
	if err != nil || to.Addr().Zone() != "" || to.Port() == 0 {
		return errors.New("want address:port, or goto and a chain, as its value")
	}
	if len(more) != 1 {
		return errors.New("want slot:N behind the port")
	}
	slot, ok := strings.CutPrefix(more[0], "slot:")
	n, err := strconv.ParseUint(slot, 10, 16)
	if !ok || err != nil {
		return errors.New("want slot:N behind the port")
	}
	e.Slot, e.ToPort = uint16(n), to.Port()
	e.Second = netip.PrefixFrom(to.Addr(), to.Addr().BitLen())
	return nil
}

// parsePrefix reads a prefix, or an address as its longest prefix.
func parsePrefix(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q: want an address or a prefix", s)
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}
