package sysctl

import (
	"fmt"
	"os"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// modules bring whole families of parameters with them.
var modules = []struct{ prefix, module string }{
	{"net.ipv4.vs.", "ip_vs"},
	{"net.netfilter.nf_conntrack_", "nf_conntrack"},
	{"net.nf_conntrack_max", "nf_conntrack"},
	{"net.bridge.", "br_netfilter"},
}

// missing says why a parameter is not there: its module is not loaded, or this
// kernel, older or newer than those that have it, never had it.
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

// loaded says whether the directory that a prefix names is there, or, of a
// prefix inside a directory that others share, a parameter beginning with it.
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
