package sysctl

import (
	"fmt"
	"os"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// modules maps prefixes of parameters to the module that brings them.
var modules = []struct{ prefix, module string }{
	{"net.ipv4.vs.", "ip_vs"},
	{"net.netfilter.nf_conntrack_", "nf_conntrack"},
	{"net.nf_conntrack_max", "nf_conntrack"},
	{"net.bridge.", "br_netfilter"},
}

// missing returns the error for a parameter that does not exist. Its module is not loaded, or this
// kernel release does not have the parameter at all.
func (p *Params) missing(name string) error {
	e := &kernel.MissingError{What: fmt.Sprintf("this kernel has no parameter %s", name)}
	for _, m := range modules {
		if !strings.HasPrefix(name, m.prefix) || p.loaded(m.prefix) {
			continue
		}
		e.What += " (module " + m.module + " is not loaded)"
		e.Hint = "modprobe " + m.module
	}
	if strings.HasPrefix(name, "net.ipv6.") && !p.loaded("net.ipv6.") {
		e.What += " (it runs without IPv6)"
		e.Hint = "boot without ipv6.disable=1, or serve no IPv6 addresses"
	}
	return e
}

// loaded reports whether the directory of a prefix exists. For a prefix that ends inside a name, it
// reports whether the directory has a parameter that begins with it.
func (p *Params) loaded(prefix string) bool {
	dir, rest := prefix, ""
	if i := strings.LastIndexByte(prefix, '.'); i >= 0 {
		dir, rest = prefix[:i], prefix[i+1:]
	}
	path, err := p.path(dir)
	if err != nil {
		return false
	}
	files, err := os.ReadDir(path)
	if err != nil {
		return false
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), rest) {
			return true
		}
	}
	return false
}
