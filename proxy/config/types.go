package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// word is one of a few words.
func word[W ~string](known ...W) fields.Type[W] {
	return fields.Word(func(words []string) string {
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = strconv.Quote(w)
		}
		return strings.Join(quoted, ", ")
	}, known...)
}

// positive is a duration of more than 0.
var positive = fields.DurationOf(func(s string, d time.Duration) error {
	if d == 0 {
		return fmt.Errorf("%q must be more than 0", s)
	}
	return nil
})

// seconds is a timeout that the kernel counts in whole seconds. Less than one would become 0, which means
// to leave the kernel's value alone.
var seconds = fields.DurationOf(func(s string, d time.Duration) error {
	if d > 0 && d < time.Second {
		return fmt.Errorf(`%q is less than a second, and the kernel counts whole ones ("0s" leaves its value alone)`, s)
	}
	return nil
})

var address = fields.AddrOf(parseAddr)

func parseAddr(s string) (netip.Addr, error) {
	a, err := fields.ParseAddr(s)
	if err == nil && a.Zone() != "" {
		err = fmt.Errorf("%q has a zone: write %q", s, a.WithZone(""))
	}
	return a, err
}

// Ports of upstream's listeners.
const (
	healthzPort = 10256
	metricsPort = 10249
)

// listener is an address and port to listen on; the port may be left out. "" turns the listener off.
func listener(port uint16) fields.Type[netip.AddrPort] {
	want := fmt.Sprintf(`an address and port such as "127.0.0.1:%d"`, port)
	return fields.Parsed(fields.KindListener, want, func(s string) (netip.AddrPort, error) {
		if s == "" {
			return netip.AddrPort{}, nil
		}
		ap, err := netip.ParseAddrPort(s)
		if a, bare := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); bare == nil {
			ap, err = netip.AddrPortFrom(a, port), nil
		}
		if err != nil || ap.Port() == 0 {
			return netip.AddrPort{}, fmt.Errorf(`%q is not %s ("" turns the listener off)`, s, want)
		}
		return ap, nil
	}, listening)
}

// pair is one CIDR, or one of each family with a comma between.
var pair = fields.Parsed(fields.KindString, `a string such as "10.244.0.0/16,fd00:10:244::/64"`,
	func(s string) ([]netip.Prefix, error) {
		var found []netip.Prefix
		for w := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' }) {
			p, err := parsePrefix(w)
			if err != nil {
				return nil, err
			}
			for _, other := range found {
				if other.Addr().Is4() == p.Addr().Is4() {
					return nil, fmt.Errorf("%q has two CIDRs of one family: one IPv4 and one IPv6 at most", s)
				}
			}
			found = append(found, p)
		}
		return found, nil
	}, func(pair []netip.Prefix) string { return strings.Join(written(pair), ",") })

// parsePrefix masks host bits, as upstream does: 10.0.0.1/8 is 10.0.0.0/8.
func parsePrefix(s string) (netip.Prefix, error) {
	p, err := fields.ParsePrefix(strings.TrimSpace(s), " for one address")
	return p.Masked(), err
}

var (
	prefixes  = list("CIDRs", parsePrefix, netip.Prefix.String)
	addresses = list("IP addresses", parseAddr, netip.Addr.String)
	paths     = list("file names", checked(absolute), itself)
	hostNames = list("host names", checked(checkHost), itself)

	nameServers = list("addresses of DNS servers", parseNameServer, netip.AddrPort.String)

	directories = list("directories", checked(absolute), itself)
)

// parseNameServer reads an address, or one with a port.
func parseNameServer(s string) (netip.AddrPort, error) {
	if a, err := parseAddr(s); err == nil {
		return netip.AddrPortFrom(a, 53), nil
	}
	ap, err := netip.ParseAddrPort(s)
	if err != nil || ap.Port() == 0 || ap.Addr().Zone() != "" {
		return netip.AddrPort{}, fmt.Errorf(`%q is not an address such as "192.0.2.53" or "192.0.2.53:5353"`, s)
	}
	return ap, nil
}

func itself(s string) string { return s }

func checked(check func(string) error) func(string) (string, error) {
	return func(s string) (string, error) { return s, check(s) }
}

// list is an array of strings that parse reads. of names them in errors.
func list[V any](of string, parse func(string) (V, error), print func(V) string) fields.Type[[]V] {
	return fields.Type[[]V]{
		Kind: fields.KindStrings,
		Read: func(n fields.Node) (items []V, err error) {
			words, err := stringsOf(n, of)
			if err != nil {
				return nil, err
			}
			for i, w := range words {
				item, err := parse(w)
				if err != nil {
					return nil, &itemError{i, err}
				}
				items = append(items, item)
			}
			return items, nil
		},
		Write: func(items []V) any {
			all := make([]any, len(items))
			for i, item := range items {
				all[i] = print(item)
			}
			return all
		},
	}
}

func stringsOf(n fields.Node, of string) ([]string, error) {
	array, ok := n.V.([]any)
	if !ok {
		return nil, n.Mistyped("an array of " + of)
	}
	words := make([]string, len(array))
	for i, item := range array {
		if words[i], ok = item.(string); !ok {
			return nil, &itemError{i, fmt.Errorf("must be an array of %s in quotes, an element is %s", of, fields.TypeOf(item))}
		}
	}
	return words, nil
}

// itemError is the error of one element, which may have a line of its own.
type itemError struct {
	index int
	err   error
}

func (e *itemError) Error() string { return e.err.Error() }

const primary = "primary"

// nodePorts is an array of CIDRs, or of the word primary alone.
var nodePorts = fields.Type[NodePortAddresses]{
	Kind: fields.KindStrings,
	Read: func(n fields.Node) (NodePortAddresses, error) {
		words, err := stringsOf(n, "CIDRs")
		switch {
		case err != nil:
			return NodePortAddresses{}, err
		case slices.Equal(words, []string{primary}):
			return NodePortAddresses{Primary: true}, nil
		case slices.Contains(words, primary):
			return NodePortAddresses{}, fmt.Errorf("has %q and CIDRs: write one or the other", primary)
		}
		cidrs, err := prefixes.Read(n)
		return NodePortAddresses{CIDRs: cidrs}, err
	},
	Write: func(a NodePortAddresses) any {
		if a.Primary {
			return []any{primary}
		}
		return prefixes.Write(a.CIDRs)
	},
}

// gates are upstream's feature gates.
var gates = fields.Type[map[string]bool]{
	Kind: fields.KindBooleans,
	Read: func(n fields.Node) (map[string]bool, error) {
		t, ok := n.V.(map[string]any)
		if !ok {
			return nil, n.Mistyped("a table such as { Gate = true }")
		}
		var found map[string]bool
		for _, name := range slices.Sorted(maps.Keys(t)) {
			on, ok := t[name].(bool)
			if !ok {
				return nil, fmt.Errorf("gate %s must be true or false, not %s", spelt(name), fields.TypeOf(t[name]))
			}
			if found == nil {
				found = make(map[string]bool, len(t))
			}
			found[name] = on
		}
		return found, nil
	},
	Write: func(gates map[string]bool) any {
		t := make(map[string]any, len(gates))
		for name, on := range gates {
			t[name] = on
		}
		return t
	},
}

func checkScheduler(s string) error {
	err := sources.CheckScheduler(s)
	if s == "" || err == nil {
		return nil
	}
	return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "scheduler "))
}

// checkProxyName checks the value of a label of Kubernetes, as IsValidLabelValue of k8s.io/apimachinery does.
func checkProxyName(s string) error {
	inside := func(r rune) bool { return letterOrDigit(r) || strings.ContainsRune("-_.", r) }
	if len(s) > 63 || strings.TrimFunc(s, inside) != "" || s != strings.Trim(s, "-_.") {
		return errors.New("a label's value has at most 63 letters, digits, -, _ and ., and a letter or digit at both ends")
	}
	return nil
}

func letterOrDigit(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

var modes = word(append([]string{""}, sources.Modes()...)...)

// fallsBack reports whether mode ipvs is asked for in kube-proxy's words, its file or its flag: kube-proxy went on in
// another mode where the kernel lacked something. A mode of svcproxy.toml is that one or an error.
func (d *decoder) fallsBack() bool {
	o, given := d.origins["mode"]
	return given && d.config.Mode == mode.IPVS && (o.flag != "" || d.upstream.file)
}

// UseMode makes a mode that was chosen the configured one.
func (c *Config) UseMode(name string) { c.Mode, c.ModeFallsBack = name, false }

// Strict reports whether the configured mode is the only one that may be used.
func (c *Config) Strict() bool { return c.Mode != "" && !c.ModeFallsBack }

func checkMode(s string) error {
	if s == "kernelspace" {
		return fmt.Errorf(`%q is for Windows: use "ipvs"`, s)
	}
	_, err := modes.Read(fields.Node{V: s})
	return err
}

const minor = `^(\d+\.\d+)?$`

func checkMinor(s string) error {
	if !matches(minor, s) {
		return fmt.Errorf(`%q is not a minor version such as "1.35"`, s)
	}
	return nil
}

// matches reports whether s matches a regular expression. It compiles the expression each
// time: few values need one, and a compiled variable would cost every command at its start.
func matches(expr, s string) bool { return regexp.MustCompile(expr).MatchString(s) }

func absolute(s string) error {
	if !filepath.IsAbs(s) {
		return fmt.Errorf("%q must be an absolute path", s)
	}
	return nil
}

// hostName is a name without a port, as in a Host header, or a domain with a dot before it.
const hostName = `^(\*|\.?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?)$`

func checkHost(s string) error {
	if !matches(hostName, s) || len(s) > 253 {
		return fmt.Errorf(`%q is not a name such as "node1.example.com", ".example.com" or "*"`, s)
	}
	return nil
}

// checkInterface lets "" pass, too: the key is then not given.
func checkInterface(s string) error {
	if s == "" {
		return nil
	}
	return kernel.CheckDevice(s)
}
