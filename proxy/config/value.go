package config

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources/file/strict"
)

// value is a field of a Config as the outside sees it.
type value interface {
	// set takes what the TOML library gives for a value. The error follows the
	// field's name in a sentence: `"x" is not one of a, b`.
	set(v any) error
	// get is the value as set takes it.
	get() any
	// form is what a flag's text is turned into before set.
	form() form
}

// form is a type of TOML values.
type form uint8

const (
	formText form = iota
	formBool
	formInt
	formFloat
	formList  // of text, in a flag separated by commas
	formGates // a table of booleans, in a flag A=true,B=false
)

func mistyped(want string, v any) error {
	return fmt.Errorf("must be %s, not %s", want, strict.TypeOf(v))
}

// text is any string that check lets pass.
type text struct {
	p     *string
	check func(string) error // or nil
}

func (t text) form() form { return formText }
func (t text) get() any   { return *t.p }
func (t text) set(v any) error {
	s, ok := v.(string)
	if !ok {
		return mistyped("a string", v)
	}
	if t.check != nil {
		if err := t.check(s); err != nil {
			return err
		}
	}
	*t.p = s
	return nil
}

// choice is one of a few words.
type choice struct {
	text
	known []string
}

func word(p *string, known ...string) choice {
	check := func(s string) error {
		if slices.Contains(known, s) {
			return nil
		}
		if meant := strict.Near(s, known); meant != "" {
			return fmt.Errorf("%q is not known, did you mean %q?", s, meant)
		}
		quoted := make([]string, len(known))
		for i, k := range known {
			quoted[i] = strconv.Quote(k)
		}
		return fmt.Errorf("%q is not one of %s", s, strings.Join(quoted, ", "))
	}
	return choice{text{p, check}, known}
}

type truth struct{ p *bool }

func (b truth) form() form { return formBool }
func (b truth) get() any   { return *b.p }
func (b truth) set(v any) error {
	t, ok := v.(bool)
	if !ok {
		return mistyped("true or false", v)
	}
	*b.p = t
	return nil
}

type number struct {
	p           *int
	least, most int
}

func (n number) form() form { return formInt }
func (n number) get() any   { return int64(*n.p) }
func (n number) set(v any) error {
	i, ok := v.(int64)
	switch {
	case !ok:
		return mistyped("an integer", v)
	case i >= int64(n.least) && i <= int64(n.most):
		*n.p = int(i)
		return nil
	case n.most == math.MaxInt32:
		return fmt.Errorf("is %d: must be %d or more", i, n.least)
	}
	return fmt.Errorf("is %d: must be %d to %d", i, n.least, n.most)
}

// fraction is a number with or without a point.
type fraction struct{ p *float64 }

func (f fraction) form() form { return formFloat }
func (f fraction) get() any   { return *f.p }
func (f fraction) set(v any) error {
	switch n := v.(type) {
	case int64:
		*f.p = float64(n)
	case float64:
		if math.IsNaN(n) || math.IsInf(n, 0) {
			return fmt.Errorf("must be a finite number")
		}
		*f.p = n
	default:
		return mistyped("a number", v)
	}
	return nil
}

// duration is a Go duration of at least least. Of seconds the kernel keeps only
// whole ones: less than one would become 0, which means something else.
type duration struct {
	p       *time.Duration
	least   time.Duration
	seconds bool
}

func (d duration) form() form { return formText }

// get leaves out the zeros that time.Duration's String has: 15m, not 15m0s.
func (d duration) get() any {
	s := d.p.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (d duration) set(v any) error {
	s, ok := v.(string)
	if !ok {
		return mistyped(`a duration such as "30s"`, v)
	}
	t, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return fmt.Errorf(`%q is not a duration such as "30s", "5m" or "3h"`, s)
	case t < 0:
		return fmt.Errorf("%q must not be negative", s)
	case t < d.least:
		return fmt.Errorf("%q must be more than 0", s)
	case d.seconds && t > 0 && t < time.Second:
		return fmt.Errorf(`%q is less than a second, and the kernel counts whole ones ("0s" leaves its value alone)`, s)
	}
	*d.p = t
	return nil
}

// seconds is a timeout that the kernel counts in whole seconds.
func seconds(p *time.Duration) duration { return duration{p: p, seconds: true} }

// positive is the least duration that is not 0.
const positive = time.Nanosecond

type address struct{ p *netip.Addr }

func (a address) form() form { return formText }
func (a address) get() any   { return a.p.String() }
func (a address) set(v any) error {
	s, ok := v.(string)
	if !ok {
		return mistyped("an IP address in quotes", v)
	}
	addr, err := parseAddr(s)
	if err != nil {
		return err
	}
	*a.p = addr
	return nil
}

func parseAddr(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(strings.TrimSpace(s))
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("%q is not an IP address", s)
	case a.Is4In6():
		return netip.Addr{}, fmt.Errorf("%q is an IPv4 address in IPv6 clothing: write %q", s, a.Unmap())
	case a.Zone() != "":
		return netip.Addr{}, fmt.Errorf("%q has a zone: write %q", s, a.WithZone(""))
	}
	return a, nil
}

// listener is an address and port to listen on, the usual port if it has none;
// "" turns it off.
type listener struct {
	p    *netip.AddrPort
	port uint16
}

// Ports of upstream's listeners.
const (
	healthzPort = 10256
	metricsPort = 10249
)

func (l listener) form() form { return formText }
func (l listener) get() any {
	if !l.p.IsValid() {
		return ""
	}
	return l.p.String()
}
func (l listener) set(v any) error {
	s, ok := v.(string)
	if !ok {
		return mistyped(fmt.Sprintf(`an address and port such as "127.0.0.1:%d"`, l.port), v)
	}
	if s == "" {
		*l.p = netip.AddrPort{}
		return nil
	}
	ap, err := netip.ParseAddrPort(s)
	if a, bare := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); bare == nil {
		ap, err = netip.AddrPortFrom(a, l.port), nil
	}
	if err != nil || ap.Port() == 0 {
		return fmt.Errorf(`%q is not an address and port such as "127.0.0.1:%d" ("" turns the listener off)`, s, l.port)
	}
	*l.p = ap
	return nil
}
