package iptables

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The words of iptables for what rules of nftables load and compare.

// metaNames has the option for a key of meta. That for an index needs the name of the link.
var metaNames = map[expr.MetaKey]string{
	expr.MetaKeyIIF: "index -i", expr.MetaKeyOIF: "index -o", expr.MetaKeyIIFNAME: "-i", expr.MetaKeyOIFNAME: "-o",
	expr.MetaKeyL4PROTO: "-p", expr.MetaKeyNFPROTO: "--nfproto", expr.MetaKeyPROTOCOL: "ether",
	expr.MetaKeyMARK: "-m mark --mark",
}

// payload returns the option for a part of a header. The kernel's tools load only the bytes that a prefix has. IPv4 has
// its addresses at 12 and 16 and its protocol at 9, IPv6 at 8, 24 and 6.
func payload(e *expr.Payload) string {
	switch at := (struct{ offset, size uint32 }{e.Offset, e.Len}); {
	case e.Base == expr.PayloadBaseTransportHeader:
		return map[struct{ offset, size uint32 }]string{{2, 2}: "--dport", {0, 2}: "--sport", {13, 1}: "--tcp-flags"}[at]
	case e.Base != expr.PayloadBaseNetworkHeader:
		return ""
	case at.size == 1 && (at.offset == 9 || at.offset == 6):
		return "-p"
	case at.offset == 12 && at.size <= 4:
		return "4 -s"
	case at.offset == 16 && at.size <= 4:
		return "4 -d"
	case at.offset == 8 && at.size > 1 && at.size <= 16:
		return "6 -s"
	case at.offset == 24 && at.size <= 16:
		return "6 -d"
	}
	return ""
}

// fib returns the option for a look-up of an address's type.
func fib(e *expr.Fib) string {
	switch {
	case !e.ResultADDRTYPE || e.FlagIIF || e.FlagOIF || e.FlagMARK:
		return ""
	case e.FlagSADDR:
		return "-m addrtype --src-type"
	}
	return "-m addrtype --dst-type"
}

// verdict is a verdict in the words of iptables, "" for one that goes on.
func verdict(v *expr.Verdict) string {
	switch v.Kind {
	case expr.VerdictDrop:
		return "DROP"
	case expr.VerdictAccept:
		return "ACCEPT"
	case expr.VerdictReturn:
		return "RETURN"
	case expr.VerdictJump:
		return v.Chain
	case expr.VerdictGoto:
		return "-g " + v.Chain
	case expr.VerdictQueue:
		return "NFQUEUE"
	}
	return ""
}

// anyOf is the match for one of the bits of the mask.
func (r *nftRule) anyOf() string {
	if r.loaded == "--ctstate" {
		return r.option(stateNames(r.mask))
	}
	return "" // of several flags one: iptables has no words for it
}

// equal is the match for a value, "" if it is not understood.
func (r *nftRule) equal(data []byte) string {
	if option, of := r.address(); of > 0 {
		bits := 8 * len(data)
		if len(r.mask) > 0 {
			bits, _ = net.IPMask(r.mask).Size()
		}
		if p := prefix(data, of, bits); p != "" {
			return option + " " + p
		}
		return ""
	}
	if len(r.mask) > 0 {
		switch {
		case r.loaded == "-m mark --mark" && len(data) == 4 && len(r.mask) == 4:
			return fmt.Sprintf("-m mark --mark %#x/%#x", binary.NativeEndian.Uint32(data), binary.NativeEndian.Uint32(r.mask))
		case r.loaded == "--tcp-flags" && len(data) == 1 && len(r.mask) == 1:
			return "--tcp-flags " + flagNames(r.mask[0]) + " " + flagNames(data[0])
		}
		return ""
	}
	return r.option(r.value(data))
}

// address returns the option and the size in bytes, if an address is loaded.
func (r *nftRule) address() (option string, size int) {
	switch {
	case strings.HasPrefix(r.loaded, "4 "):
		return r.loaded[2:], 4
	case strings.HasPrefix(r.loaded, "6 "):
		return r.loaded[2:], 16
	}
	return "", 0
}

// option is what is loaded with a value, "" without one.
func (r *nftRule) option(value string) string {
	if value == "" || r.loaded == "" {
		return ""
	}
	name := strings.TrimPrefix(r.loaded, "index ")
	if r.loaded == "ether" {
		name = "--nfproto"
	}
	return name + " " + value
}

// value is a constant in the words of iptables, "" if it is not understood.
func (r *nftRule) value(data []byte) string {
	big, err := number(data, binary.BigEndian)
	native, _ := number(data, binary.NativeEndian)
	if r.loaded == "-i" || r.loaded == "-o" {
		name, _, whole := strings.Cut(string(data), "\x00")
		if !whole {
			name += "+"
		}
		return name
	}
	if err != nil {
		return ""
	}
	switch r.loaded {
	case "index -i", "index -o":
		return r.link(native)
	case "-p":
		return protocolName(byte(big))
	case "--nfproto":
		return map[uint32]string{unix.NFPROTO_IPV4: "ipv4", unix.NFPROTO_IPV6: "ipv6"}[big]
	case "ether":
		return map[uint32]string{unix.ETH_P_IP: "ipv4", unix.ETH_P_IPV6: "ipv6"}[big]
	case "--dport", "--sport":
		return fmt.Sprint(big)
	case "--ctstate":
		return stateNames(data)
	case "-m mark --mark":
		return fmt.Sprintf("%#x", native)
	case "-m addrtype --src-type", "-m addrtype --dst-type":
		return map[uint32]string{unix.RTN_UNICAST: "UNICAST", unix.RTN_LOCAL: "LOCAL", unix.RTN_BROADCAST: "BROADCAST",
			unix.RTN_MULTICAST: "MULTICAST"}[native]
	}
	return ""
}

// ranged is the match for a range of values, both included; "" if it is not understood.
func (r *nftRule) ranged(from, to []byte) string {
	option, size := r.address()
	switch {
	case len(r.mask) > 0 || len(from) != len(to):
	case size > 0 && len(from) == size:
		a, _ := netip.AddrFromSlice(from)
		b, _ := netip.AddrFromSlice(to)
		option = map[string]string{"-s": "-m iprange --src-range ", "-d": "-m iprange --dst-range "}[option]
		if a == b {
			return option + a.String()
		}
		return option + a.String() + "-" + b.String()
	case (r.loaded == "--dport" || r.loaded == "--sport") && len(from) == 2:
		return fmt.Sprintf("%s %d:%d", r.loaded, binary.BigEndian.Uint16(from), binary.BigEndian.Uint16(to))
	}
	return ""
}

// inSet is the match for one of some elements, "" if it is not understood.
func (r *nftRule) inSet(all []element, known bool) string {
	if !known || len(all) == 0 && r.loaded == "" {
		return ""
	}
	list, option := make([]string, 0, len(all)), ""
	for _, el := range all {
		text := r.equal(el.from)
		if _, size := r.address(); size > 0 || !bytes.Equal(el.from, el.to) {
			text = r.ranged(el.from, el.to)
		}
		i := strings.LastIndexByte(text, ' ')
		if i < 0 {
			return ""
		}
		option, list = text[:i], append(list, text[i+1:])
	}
	if len(list) == 0 || len(list) > 1 && (option == "-m mark --mark" || option == "--nfproto") {
		return ""
	}
	return option + " " + strings.Join(list, ",")
}

func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// stateNames are the names of the bits of ct state.
func stateNames(mask []byte) string {
	n, err := number(mask, binary.NativeEndian)
	if err != nil {
		return ""
	}
	return bitNames(n, []bit{{expr.CtStateBitINVALID, "INVALID"}, {expr.CtStateBitESTABLISHED, "ESTABLISHED"},
		{expr.CtStateBitRELATED, "RELATED"}, {expr.CtStateBitNEW, "NEW"}, {expr.CtStateBitUNTRACKED, "UNTRACKED"}})
}

func flagNames(n byte) string {
	if n == 0 {
		return "NONE"
	}
	return bitNames(uint32(n), []bit{{1, "FIN"}, {2, "SYN"}, {4, "RST"}, {8, "PSH"}, {16, "ACK"}, {32, "URG"}})
}

type bit struct {
	mask uint32
	name string
}

func bitNames(n uint32, bits []bit) string {
	var names []string
	for _, b := range bits {
		if n&b.mask != 0 {
			names = append(names, b.name)
		}
	}
	return strings.Join(names, ",")
}

func protocolName(n byte) string {
	if name := protocolNames[fmt.Sprint(n)]; name != "" {
		return name
	}
	return fmt.Sprint(n)
}

// prefix is a network as iptables prints it, "" if it is none. The address may lack bytes at its end.
func prefix(address []byte, size, bits int) string {
	full := make([]byte, size)
	copy(full, address)
	a, ok := netip.AddrFromSlice(full)
	if !ok || bits == 0 || len(address) > size || bits > 8*len(address) {
		return ""
	}
	return netip.PrefixFrom(a, bits).String()
}
