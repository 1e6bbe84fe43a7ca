package kernel

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// maxDevice is IFNAMSIZ without its NUL.
const maxDevice = 15

// CheckDevice says what is wrong with an interface's name.
func CheckDevice(s string) error {
	ok := s != "" && len(s) <= maxDevice && s != "." && s != ".." && s[0] != '-'
	for _, r := range s {
		ok = ok && r > ' ' && r < 0x7f && !strings.ContainsRune(`/:"'\+`, r)
	}
	if !ok {
		return fmt.Errorf("%.40q is not an interface's name: 1 to %d letters, digits, '-', '_', '.'", s, maxDevice)
	}
	return nil
}

// maxPrefix is the longest prefix for which all names of sets differ: with seven
// characters the IPv6 sets LOAD-BALANCER-SOURCE-IP and -SOURCE-CIDR would be cut to one
// name.
const maxPrefix = 6

// CheckPrefix says what is wrong with the prefix of sets and chains. It also refuses
// prefixes under which the sets of two proxies would have the same names:
// KUBE-6-CLUSTER-IP is the IPv6 set of KUBE.
func CheckPrefix(s string) error {
	ok := s != "" && len(s) <= maxPrefix && s[0] != '-'
	for _, r := range s {
		ok = ok && (r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-')
	}
	switch {
	case !ok:
		return fmt.Errorf("%.40q must be 1 to %d of A-Z, 0-9 and '-', and not begin with '-'", s, maxPrefix)
	case strings.HasSuffix(s, "-6"), strings.HasSuffix(s, "-TMP"):
		return fmt.Errorf("%q would name sets as the prefix %q does: take another", s, s[:strings.LastIndexByte(s, '-')])
	}
	return nil
}

// Check says what is wrong with names that were read from a file.
func (n Names) Check() error { return errors.Join(CheckPrefix(n.Prefix), CheckDevice(n.Device)) }

// Check says why svcproxy cannot have saved this value. The values are in a file of the service's user, and
// root restores them. So it accepts only names that svcproxy sets (the sysctls given, IPVS timeouts, daemons
// of connection sync, ProxyNDP and AcceptRA), and only values that these can have.
func (s Saved) Check(sysctls []string) error {
	if IsSyncDaemon(s.Name) {
		return s.checkDaemon()
	}
	link, ofLink := linkOf(s.Name)
	if !ofLink && !IsTimeout(s.Name) && !slices.Contains(sysctls, s.Name) {
		return fmt.Errorf("%.80q is not a parameter that svcproxy sets", s.Name)
	}
	if ofLink {
		if err := CheckDevice(link); err != nil {
			return fmt.Errorf("%.80q: %w", s.Name, err)
		}
	}
	if s.Name == SyncThreshold {
		return errors.Join(s.checkNumbers(strings.Fields(s.Before)...), s.checkNumbers(strings.Fields(s.Ours)...))
	}
	return s.checkNumbers(s.Before, s.Ours)
}

// SyncThreshold is a parameter of IPVS that has two numbers: after how many packets a connection is synced,
// and after how many more again.
const SyncThreshold = "net.ipv4.vs.sync_threshold"

func (s Saved) checkNumbers(values ...string) error {
	for _, value := range values {
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil || n > math.MaxInt32 || strconv.FormatUint(n, 10) != value {
			return fmt.Errorf("%s: %.40q is not a number from 0 to %d", s.Name, value, math.MaxInt32)
		}
	}
	return nil
}

// Unserved lists the addresses on the device that no owned set has as a VIP, and no rule
// of mode iptables guards. If there are any, a device that only a file says is ours may be another program's. Virtual
// servers are no proof, since those of node ports can have any address.
func (o *Observed) Unserved() []netip.Addr {
	served := make(map[netip.Addr]bool)
	for _, run := range o.Entries.Runs() {
		family, spec, ours := o.Names.SetSpec(run[0].Set)
		switch {
		case !ours, spec.Name == Frontends: // which has node ports at the node's own addresses, too
			continue
		case spec.Opens, spec.Name == IPVSIPs && o.HasSet(o.Names.Set(family, Frontends)):
			for _, e := range run {
				served[e.Addr] = true
			}
		}
	}
	for i := range o.Chains {
		if c := &o.Chains[i]; c.Table == "filter" && o.Names.IsChain(c.Name, ChainVIPFilter) {
			addGuarded(served, c.Rules)
		}
	}
	var all []netip.Addr
	for _, a := range o.Addrs {
		if !served[a.Addr] {
			all = append(all, a.Addr)
		}
	}
	return all
}

// addGuarded adds the destinations of rules that are about one address.
func addGuarded(to map[netip.Addr]bool, rules string) {
	for rule := range strings.SplitSeq(rules, "\n") {
		text, ok := strings.CutPrefix(rule, "-d ")
		text, _, _ = strings.Cut(text, " ")
		if p, err := netip.ParsePrefix(text); ok && err == nil && p.IsSingleIP() {
			to[p.Addr()] = true
		}
	}
}
