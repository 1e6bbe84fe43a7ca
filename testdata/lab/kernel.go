package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
)

// A Reading is what a node's kernel holds, read with other people's tools. Its
// lines are sorted and without what no two loads have in common: hash seeds and
// sizes, counters, the kernel's numbers for rules of iptables.
type Reading struct {
	Virtuals []string // ipvsadm -Sn: -A and -a lines
	Sets     []string // ipset save: create and add lines
	Rules    []string // iptables-save, ip6tables-save
	Addrs    []string // ip -o addr, all links
}

// Read reads a node.
func (h *Host) Read() (r Reading, err error) {
	if r.Virtuals, err = h.Virtuals(); err != nil {
		return r, err
	}
	if r.Sets, err = h.Sets(); err != nil {
		return r, err
	}
	if r.Addrs, err = h.Addrs(); err != nil {
		return r, err
	}
	for _, tool := range []string{"iptables-save", "ip6tables-save"} {
		rules, err := h.Rules(tool)
		if err != nil {
			return r, err
		}
		r.Rules = append(r.Rules, rules...)
	}
	sets, rules, err := h.native()
	r.Sets, r.Rules = append(r.Sets, sets...), append(r.Rules, rules...)
	return r, err
}

// Virtuals lists virtual servers with their real servers as ipvsadm saves them. A kernel
// without IPVS has none.
func (h *Host) Virtuals() ([]string, error) {
	if _, err := os.Stat("/proc/net/ip_vs"); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	out, err := h.Run("ipvsadm", "-Sn")
	return sorted(out), err
}

var setSizes = regexp.MustCompile(` (hashsize|maxelem|bucketsize|initval) \S+`)

// Sets lists sets and entries as ipset saves them, without sizes.
func (h *Host) Sets() ([]string, error) {
	out, err := h.Run("ipset", "save")
	return sorted(setSizes.ReplaceAllString(out, "")), err
}

// Addrs lists every link's addresses: "kube-ipvs0 10.96.0.20/32". Link-local ones are left
// out, since the kernel adds them some time after a link is up.
func (h *Host) Addrs() ([]string, error) {
	out, err := h.Run("ip", "-o", "addr")
	var addrs []string
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 3 && !strings.HasPrefix(f[3], "fe80:") {
			addrs = append(addrs, f[1]+" "+f[3])
		}
	}
	slices.Sort(addrs)
	return addrs, err
}

var counters = regexp.MustCompile(` \[\d+:\d+\]`)

// Rules lists chains and rules, in their order, by iptables-save or ip6tables-save.
func (h *Host) Rules(tool string) ([]string, error) {
	out, err := h.Run(tool)
	var rules []string
	for line := range strings.Lines(counters.ReplaceAllString(out, "")) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			rules = append(rules, tool+" "+line)
		}
	}
	return rules, err
}

func sorted(text string) []string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	slices.Sort(lines)
	return lines
}

// Lines is the whole reading in one list.
func (r Reading) Lines() []string { return slices.Concat(r.Virtuals, r.Sets, r.Rules, r.Addrs) }

// Keep is the part of the reading whose lines the function wants.
func (r Reading) Keep(want func(line string) bool) Reading {
	keep := func(lines []string) []string {
		return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !want(l) })
	}
	return Reading{keep(r.Virtuals), keep(r.Sets), keep(r.Rules), keep(r.Addrs)}
}

// Diff lists the lines that only one of two readings has, with - for the first
// and + for the second. It is empty if they are equal.
func Diff(a, b Reading) string {
	var diff strings.Builder
	x, y := a.Lines(), b.Lines()
	for _, l := range without(x, y) {
		fmt.Fprintln(&diff, "-", l)
	}
	for _, l := range without(y, x) {
		fmt.Fprintln(&diff, "+", l)
	}
	if diff.Len() == 0 && !slices.Equal(a.Rules, b.Rules) {
		x, y := differing(a.Rules, b.Rules)
		fmt.Fprintf(&diff, "the order of rules:\n- %s\n+ %s\n", strings.Join(x, "\n- "), strings.Join(y, "\n+ "))
	}
	return diff.String()
}

// differing cuts what two lists begin and end with alike.
func differing(a, b []string) (x, y []string) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

func without(lines, others []string) []string {
	count := map[string]int{}
	for _, l := range others {
		count[l]++
	}
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		count[l]--
		return count[l] >= 0
	})
}

// A VirtualServer is one -A line of ipvsadm: its address and port, and its
// entry in an ipset of type hash:ip,port.
type VirtualServer struct {
	Addr  netip.AddrPort
	Entry string // 10.96.0.20,tcp:80
}

// VirtualServers picks the virtual servers out of the lines of a reading.
func VirtualServers(lines []string) ([]VirtualServer, error) {
	var list []VirtualServer
	for _, l := range lines {
		f := strings.Fields(l)
		if len(f) < 3 || f[0] != "-A" {
			continue
		}
		proto, ok := map[string]string{"-t": "tcp", "-u": "udp", "--sctp-service": "sctp"}[f[1]]
		if !ok {
			continue // by firewall mark: not used here
		}
		addr, err := netip.ParseAddrPort(f[2])
		if err != nil {
			return nil, fmt.Errorf("ipvsadm line %q: %w", l, err)
		}
		list = append(list, VirtualServer{addr, fmt.Sprintf("%s,%s:%d", addr.Addr(), proto, addr.Port())})
	}
	return list, nil
}
