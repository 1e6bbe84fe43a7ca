package fields

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unique"
)

// Kind is what a value must be, for documentation and schemas.
type Kind string

// The kinds. A list is a TOML array. A duration is a string as Go has them: "30s", "3h".
const (
	KindTable             Kind = "table"
	KindAddressesOrTables Kind = "list of IP addresses or tables"
	KindPortsOrTables     Kind = "list of port numbers, ranges or tables"
	KindAddresses         Kind = "list of IP addresses"
	KindCIDRs             Kind = "list of CIDRs"
	KindStrings           Kind = "list of strings"
	KindBooleans          Kind = "table of booleans"
	KindTexts             Kind = "table of strings"
	KindStringOrTable     Kind = "string or table"
	KindAddress           Kind = "IP address"
	KindListener          Kind = `IP:port, or ""`
	KindPort              Kind = "port number"
	KindPortOrName        Kind = "port number, or the name of a port"
	KindPortOrRange       Kind = "port number, or a range in quotes"
	KindWeight            Kind = "weight"
	KindInteger           Kind = "integer"
	KindNumber            Kind = "number"
	KindAmount            Kind = "number, or a percentage in quotes"
	KindDuration          Kind = "duration" // not negative
	KindRate              Kind = "rate"     // "50/s"
	KindBoolean           Kind = "boolean"
	KindWord              Kind = "word" // one of Words
	KindString            Kind = "string"
)

// Type reads, writes and describes the values of a Go type.
type Type[V any] struct {
	Kind     Kind
	Words    []string // all values of KindWord
	Min, Max int      // of an integer; Max math.MaxInt32 is no limit

	// Read returns the value of a node. Its error continues a sentence that begins with the key:
	// `"x" is not an IP address`.
	Read func(Node) (V, error)
	// Write returns what Read takes. nil: such values are only read.
	Write func(V) any
}

// Parsed is a type that stands as a string in the document. want is what a value of another TOML type
// should have been.
func Parsed[V any](kind Kind, want string, parse func(string) (V, error), print func(V) string) Type[V] {
	return Type[V]{
		Kind: kind,
		Read: func(n Node) (v V, err error) {
			s, ok := n.Text()
			if !ok {
				return v, n.Mistyped(want)
			}
			return parse(s)
		},
		Write: func(v V) any { return print(v) },
	}
}

// String is any string.
var String = StringOf(nil)

// StringOf is a string that check lets pass; nil lets all pass. Equal strings share their memory and do not keep the
// document in memory: 100,000 endpoints with node and zone take 30 MiB, and 36 with a copy each.
func StringOf(check func(string) error) Type[string] {
	return Parsed(KindString, "a string", func(s string) (string, error) {
		if check != nil {
			if err := check(s); err != nil {
				return "", err
			}
		}
		return unique.Make(s).Value(), nil
	}, func(s string) string { return s })
}

// Word is one of a few words. list writes them for the error of another one.
func Word[W ~string](list func(words []string) string, known ...W) Type[W] {
	words := make([]string, len(known))
	for i, w := range known {
		words[i] = string(w)
	}
	t := Parsed(KindWord, "a string", func(s string) (W, error) {
		if i := slices.Index(words, s); i >= 0 {
			return known[i], nil
		}
		if meant := Near(s, words); meant != "" {
			return "", fmt.Errorf("%q is not known, did you mean %q?", s, meant)
		}
		return "", fmt.Errorf("%q is not one of %s", s, list(words))
	}, func(w W) string { return string(w) })
	t.Words = words
	return t
}

// Bool is true or false.
var Bool = Type[bool]{
	Kind: KindBoolean,
	Read: func(n Node) (bool, error) {
		if b, ok := n.V.(bool); ok {
			return b, nil
		}
		return false, n.Mistyped("true or false")
	},
	Write: func(b bool) any { return b },
}

// Int is an integer from least to most; most math.MaxInt32 is no limit.
func Int(least, most int) Type[int] {
	return Type[int]{
		Kind: KindInteger, Min: least, Max: most,
		Read: func(n Node) (int, error) {
			switch i, ok := n.Integer(); {
			case !ok:
				return 0, n.Mistyped("an integer")
			case i >= int64(least) && i <= int64(most):
				return int(i), nil
			case most == math.MaxInt32:
				return 0, fmt.Errorf("is %d: must be %d or more", i, least)
			default:
				return 0, fmt.Errorf("is %d: must be %d to %d", i, least, most)
			}
		},
		Write: func(i int) any { return int64(i) },
	}
}

// Port is a port number, 1 to 65535.
var Port = Type[uint16]{
	Kind: KindPort, Min: 1, Max: math.MaxUint16,
	Read: func(n Node) (uint16, error) {
		switch i, ok := n.Integer(); {
		case !ok:
			return 0, n.Mistyped("a port number")
		case i < 1 || i > math.MaxUint16:
			return 0, fmt.Errorf("%d is not a port: must be 1 to 65535", i)
		default:
			return uint16(i), nil
		}
	},
}

// Weight is the weight of an endpoint, 0 to 65535.
var Weight = Type[uint32]{
	Kind: KindWeight, Min: 0, Max: math.MaxUint16,
	Read: func(n Node) (uint32, error) {
		switch w, ok := n.Integer(); {
		case !ok:
			return 0, n.Mistyped("an integer")
		case w < 0 || w > math.MaxUint16:
			return 0, fmt.Errorf("%d must be 0 (drain) to 65535", w)
		default:
			return uint32(w), nil
		}
	},
}

// Float is a finite number, written with or without a point.
var Float = Type[float64]{
	Kind: KindNumber,
	Read: func(n Node) (float64, error) {
		switch v := n.V.(type) {
		case int64:
			return float64(v), nil
		case float64:
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return 0, errors.New("must be a finite number")
			}
			return v, nil
		}
		return 0, n.Mistyped("a number")
	},
	Write: func(f float64) any { return f },
}

// Duration is a Go duration that is not negative.
var Duration = DurationOf(nil)

// DurationOf is a Duration that check lets pass; check also gets the text. nil lets all pass.
func DurationOf(check func(text string, d time.Duration) error) Type[time.Duration] {
	return Parsed(KindDuration, `a duration such as "30s"`, func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		switch {
		case err != nil:
			return 0, fmt.Errorf(`%q is not a duration such as "30s", "5m" or "3h"`, s)
		case d < 0:
			return 0, fmt.Errorf("%q must not be negative", s)
		case check != nil:
			err = check(s, d)
		}
		return d, err
	}, printDuration)
}

// printDuration leaves out the zeros that time.Duration's String has: 15m, not 15m0s.
func printDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Addr is an IP address.
var Addr = AddrOf(ParseAddr)

// AddrOf is an IP address that parse reads.
func AddrOf(parse func(string) (netip.Addr, error)) Type[netip.Addr] {
	return Parsed(KindAddress, "an IP address in quotes", parse, netip.Addr.String)
}

// ParseAddr reads an IP address. Spaces around it do not count.
func ParseAddr(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(strings.TrimSpace(s))
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("%q is not an IP address", s)
	case a.Is4In6():
		return netip.Addr{}, fmt.Errorf("%q is an IPv4-mapped IPv6 address: write %q", s, a.Unmap())
	}
	return a, nil
}

// ParsePrefix reads a CIDR, which may have bits beyond its length. Spaces around it do not count. A single
// address is an error that suggests its CIDR, followed by forOne.
func ParsePrefix(s, forOne string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(strings.TrimSpace(s))
	if err != nil {
		if a, err := netip.ParseAddr(strings.TrimSpace(s)); err == nil && a.Zone() == "" {
			return p, fmt.Errorf("%q is not a CIDR: write %q%s", s, netip.PrefixFrom(a, a.BitLen()), forOne)
		}
		return p, fmt.Errorf(`%q is not a CIDR such as "10.0.0.0/8"`, s)
	}
	if p.Addr().Is4In6() {
		return p, fmt.Errorf("%q is a range of IPv4-mapped IPv6 addresses: write it as IPv4", s)
	}
	return p, nil
}
