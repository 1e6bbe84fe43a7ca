package kernel

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Entry is one member of a set. The set's type decides which fields count; the
// others are zero. Second is the third part of hash:ip,port,ip (a single address)
// and of hash:ip,port,net.
type Entry struct {
	Set    string
	Addr   netip.Addr
	Proto  Proto
	Port   uint16
	Second netip.Prefix
}

// Kind is KindEntry.
func (Entry) Kind() Kind { return KindEntry }

// Key is the virtual server that an entry of a hash:ip,port set names.
func (e Entry) Key() VirtualKey {
	return VirtualKey{Addr: e.Addr, Port: e.Port, Proto: e.Proto}
}

// Compare orders by set, then as VirtualKey does, then by Second.
func (e Entry) Compare(o Entry) int {
	if c := strings.Compare(e.Set, o.Set); c != 0 {
		return c
	}
	if c := e.Key().Compare(o.Key()); c != 0 {
		return c
	}
	if c := e.Second.Addr().Compare(o.Second.Addr()); c != 0 {
		return c
	}
	return cmp.Compare(e.Second.Bits(), o.Second.Bits())
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
	proto := e.Proto.String()
	if e.Proto == FWMark {
		proto = "255"
	}
	s := fmt.Sprintf("%s,%s:%d", e.Addr, proto, e.Port)
	switch {
	case !e.Second.IsValid():
		return s
	case e.Second.IsSingleIP():
		return s + "," + e.Second.Addr().String()
	}
	return s + "," + e.Second.String()
}

func (e Entry) command(v Verb, _ Object) string { return addOrDel(v, e) }

// parseEntry reads: add SET MEMBER.
func parseEntry(f []string) (Entry, error) {
	if len(f) < 3 {
		return Entry{}, fmt.Errorf("add: want a set and a member")
	}
	e, err := ParseMember(f[2])
	e.Set = f[1]
	return e, err
}

// ParseMember reads a set's member as ipset prints it.
func ParseMember(s string) (Entry, error) {
	var e Entry
	part := strings.Split(s, ",")
	if port, err := strconv.ParseUint(s, 10, 16); err == nil {
		return Entry{Port: uint16(port)}, nil
	}
	var err error
	if e.Addr, err = netip.ParseAddr(part[0]); err != nil || e.Addr.Zone() != "" {
		return Entry{}, fmt.Errorf("member %q: want an address first", s)
	}
	if len(part) == 1 {
		return e, nil
	}
	proto, port, _ := strings.Cut(part[1], ":")
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Entry{}, fmt.Errorf("member %q: want protocol:port second", s)
	}
	e.Port = uint16(n)
	if e.Proto, err = ParseProto(proto); err != nil {
		return Entry{}, fmt.Errorf("member %q: %w", s, err)
	}
	switch len(part) {
	case 2:
		return e, nil
	case 3:
		e.Second, err = parsePrefix(part[2])
		if err != nil {
			return Entry{}, fmt.Errorf("member %q: %w", s, err)
		}
		return e, nil
	}
	return Entry{}, fmt.Errorf("member %q: want at most three parts", s)
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
