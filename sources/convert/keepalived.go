package convert

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
)

// readKeepalived reads keepalived.conf: its virtual servers with their checks.
func readKeepalived(f File, open Open) (Result, error) {
	t := keepalivedTree{open: open, variables: map[string]string{}}
	if f.Instance != "" {
		t.variables["_INSTANCE"] = f.Instance
	}
	all, err := t.read(f)
	if err != nil {
		return Result{}, err
	}
	k := keepalived{groups: map[string]*statement{}}
	for _, s := range all {
		if s.words[0] == "virtual_server_group" {
			k.groups[s.value(1)] = s
		}
	}
	for _, s := range all {
		k.top(s)
	}
	goesOn := k.goesOn(all, !t.partial)
	for i := range k.virtuals {
		if k.vrrp {
			k.virtuals[i].counts()
		}
	}
	r := services(k.virtuals)
	r.Notes = append(append(r.Notes, t.notes...), k.notes...)
	r.VRRP, r.Unread = goesOn, t.unread
	for i := range k.virtuals {
		if v := &k.virtuals[i]; v.noProtocol {
			r.NoProtocol = append(r.NoProtocol, v.addr)
		}
	}
	r.sortNotes()
	return r, nil
}

type keepalived struct {
	groups   map[string]*statement
	virtuals []virtual
	notes    []Note
	vrrp     bool // an instance of VRRP has addresses
}

// top reads a statement outside of all blocks.
func (k *keepalived) top(s *statement) {
	switch s.words[0] {
	case "virtual_server":
		k.virtualServer(s)
	case "vrrp_instance":
		k.vrrp = k.vrrp || slices.ContainsFunc(s.block, func(b *statement) bool {
			return strings.HasPrefix(b.words[0], "virtual_ipaddress") || strings.HasPrefix(b.words[0], "virtual_ip_address")
		})
	case "global_defs":
		for _, b := range s.block {
			switch {
			case b.words[0] == "lvs_timeouts":
				k.change(b.at, "lvs_timeouts: set tcpTimeout, tcpFinTimeout and udpTimeout in the table [ipvs] of svcproxy.toml")
			case strings.HasPrefix(b.words[0], "lvs_sync_daemon"):
				k.change(b.at, "%s: set the table [ha.sync] of svcproxy.toml", b.words[0])
			}
		}
	case "SSL":
		k.note(s.at, "SSL: checks send no certificate of their own, and verify none unless a service says verify and caFile")
	case "net_namespace", "net_namespace_ipvs", "namespace_with_ipsets":
		k.change(s.at, "%s: svcproxy serves the network namespace that it is started in", title(s))
	case "virtual_server_group", "vrrp_sync_group", "vrrp_script", "vrrp_track_process", "vrrp_track_file",
		"vrrp_track_bfd", "track_file", "track_group",
		"static_ipaddress", "static_routes", "static_rules", "linkbeat_interfaces", "linkbeat_use_polling", "instance",
		"garp_group", "bfd_instance", "use_pid_dir",
		"child_wait_time", "interface_up_down_delays", "include_check", "random_seed", "config_save_dir":
	default:
		k.note(s.at, "%s: not known here", unknown(s))
	}
}

func (k *keepalived) note(at sources.Origin, format string, args ...any) {
	k.notes = append(k.notes, Note{Origin: at, Message: message(format, args...)})
}

// change is a note about something that makes traffic flow otherwise.
func (k *keepalived) change(at sources.Origin, format string, args ...any) {
	k.note(at, format, args...)
	k.notes[len(k.notes)-1].Danger = Feature
}

// virtualServer reads a virtual server, or one for each address and port of its group. One that cannot be
// read is a note, as keepalived skips it, too.
func (k *keepalived) virtualServer(s *statement) {
	group, name := []*statement{{at: s.at, words: s.words[1:]}}, ""
	if s.value(1) == "group" {
		of := k.groups[s.value(2)]
		if of == nil {
			k.change(s.at, "virtual_server group: there is no virtual_server_group of that name")
			return
		}
		group, name = of.block, s.value(2)
	}
	for _, g := range group {
		if len(g.words) > 2 && (g.value(0) != "fwmark" || len(g.words) > 3) {
			k.note(g.at, "words that have no meaning stand behind the address of a virtual server")
		}
		if err := k.address(s, g, name); err != nil {
			k.change(g.at, "virtual server: %v", err)
		}
	}
}

// address adds the virtual servers of a line of a group, or those of a virtual_server alone.
func (k *keepalived) address(s, g *statement, name string) error {
	if g.value(0) == "fwmark" {
		mark, err := firewallMark(g.value(1))
		if err != nil {
			return err
		}
		v := virtual{at: s.at, mark: mark, ipv6: ofIPv6(s.block), protocol: sources.FWMark, weight: sources.DefaultWeight}
		v.keepalived(s)
		k.virtuals = append(k.virtuals, v)
		return nil
	}
	addrs, err := addrsAndPorts(g.value(0), g.value(1))
	for _, a := range addrs {
		v := virtual{name: name, at: s.at, addr: a, protocol: sources.TCP, weight: sources.DefaultWeight}
		v.keepalived(s)
		if a.Port() == 0 {
			k.change(g.at, "%s", allPorts(a.Addr(), v.protocol))
			continue
		}
		k.virtuals = append(k.virtuals, v)
	}
	return err
}

// ofIPv6 reports whether the virtual server of a mark is of IPv6: keepalived takes the family of its real servers.
func ofIPv6(block []*statement) bool {
	return slices.ContainsFunc(block, func(s *statement) bool {
		return s.words[0] == "ip_family" && s.value(1) == "inet6" || s.words[0] == "real_server" &&
			strings.Contains(s.value(1), ":")
	})
}

// keepalived reads the block of a virtual server.
func (v *virtual) keepalived(s *statement) {
	var opsAt sources.Origin
	isReal := func(b *statement) bool { return b.words[0] == "real_server" }
	common := slices.DeleteFunc(slices.Clone(s.block), isReal)
	v.setScheduler(s.at, "wlc")
	v.defaults(s)
	for _, b := range s.block {
		v.extra(b)
		var err error
		switch word := b.words[0]; word {
		case "lvs_sched", "lb_algo":
			v.scheduler = ""
			v.setScheduler(b.at, b.value(1))
		case "lvs_method", "lb_kind": // defaults has it
		case "protocol":
			if p, mistake := sources.ParseProtocol(strings.ToUpper(b.value(1))); mistake != nil {
				err = errors.New("want TCP, UDP or SCTP")
			} else {
				v.protocol = p
			}
		case "persistence_timeout":
			err = v.keepalivedAffinity(b)
		case "persistence_granularity":
			v.granularity(b.at, word, b.value(1))
		case "sorry_server":
			var r real
			if r, err = v.realServer(b); err == nil {
				v.sorry(r, replaced(b, s))
			}
		case "real_server":
			var r real
			if r, err = v.realServer(b); err == nil {
				v.keepalivedCheck(&r, common, b)
				v.add(r)
			} else {
				v.lost++
			}
		case "hashed": // the kernel's own
		case "flag-1", "flag-2", "flag-3", "sh-port", "sh-fallback", "mh-port", "mh-fallback":
			v.flag(b.at, word)
		case "ops":
			v.onePacket, opsAt = true, b.at
		case "persistence_engine":
			v.noteChange(b.at, "%s: a client stays by its address", title(b))
		case "quorum":
			v.quorum, err = strconv.Atoi(b.value(1))
			if v.quorum = min(v.quorum, maxWeight*sources.MostEndpoints); err == nil && v.quorum != 1 {
				v.noteChange(b.at, "%s: svcproxy serves as long as one endpoint is up", title(b))
			}
		case "sorry_server_lvs_method":
			v.method(b)
		case "omega", "hysteresis", "quorum_up", "quorum_down", "ha_suspend", "sorry_server_inhibit", "smtp_alert",
			"virtualhost", "alpha", "snmp_name", "ip_family",
			"delay_loop", "retry", "delay_before_retry", "warmup", "connect_timeout", "inhibit_on_failure", "weight":
			v.keepalivedRest(b)
		default:
			v.note(b.at, "%s: not known here", unknown(b))
		}
		if err != nil {
			v.noteChange(b.at, "%s: %v", title(b), err)
		}
	}
	if v.onePacket {
		v.oneByOne(opsAt) // the protocol may stand below
	}
}

// sorry adds a sorry server. keepalived has one, the last.
func (v *virtual) sorry(r real, replaced bool) {
	if replaced {
		v.note(r.at, "sorry_server %s: keepalived uses the last one only", r.addr)
		return
	}
	r.backup = true
	v.add(r)
}

// keepalivedRest notes what neither the checks nor a service have a place for.
func (v *virtual) keepalivedRest(b *statement) {
	switch b.words[0] {
	case "quorum_up", "quorum_down":
		v.moves = true
		v.note(b.at, noteNotify, b.words[0])
	case "smtp_alert":
		if on(b) {
			v.note(b.at, noteNotify, b.words[0])
		}
	case "omega", "ha_suspend", "hysteresis", "sorry_server_inhibit", "warmup", "snmp_name":
		v.note(b.at, "%s: svcproxy does not have it", b.words[0])
	}
}

func (v *virtual) method(b *statement) {
	methods := map[string]sources.Forward{"NAT": sources.Masquerade, "DR": sources.Direct, "TUN": sources.IPIP}
	method := methods[strings.ToUpper(b.value(1))]
	for i, w := range b.words {
		switch {
		case slices.Contains([]string{"nocsum", "csum", "remcsum"}, w):
			v.note(b.at, "%s: svcproxy sets no checksum options of a tunnel", w)
		case w != "type":
		case b.value(i+1) == "gue":
			method = sources.GUE
			if port := b.value(i + 3); b.value(i+2) == "port" {
				v.noteChange(b.at, "gue port %s: set ipvs.guePort = %s in svcproxy.toml", port, port)
			}
		case b.value(i+1) != "ipip":
			method = ""
		}
	}
	v.setForward(b.at, method, title(b)+" "+plain(b.value(1)))
}

func (v *virtual) keepalivedAffinity(b *statement) error {
	seconds := uint64(360) // keepalived's default
	if text := b.value(1); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return fmt.Errorf("want seconds")
		}
		seconds = n
	}
	if seconds > 0 {
		v.setAffinity(b.at, seconds)
	}
	return nil
}

// realServer reads "real_server ADDRESS [PORT]" with its weight, but not its checks.
func (v *virtual) realServer(s *statement) (real, error) {
	r := real{at: s.at, weight: v.weight}
	a, err := netip.ParseAddr(s.value(1))
	if err != nil || a.Zone() != "" {
		return r, errors.New("want an address")
	}
	port := uint64(v.addr.Port())
	if s.value(2) != "" {
		if port, err = strconv.ParseUint(s.value(2), 10, 16); err != nil {
			return r, errors.New("want a number as the port")
		}
	}
	r.addr = netip.AddrPortFrom(a, uint16(port))
	for _, b := range s.block {
		v.extra(b)
		switch b.words[0] {
		case "weight":
			n, mistake := strconv.ParseUint(b.value(1), 10, 31)
			if mistake != nil {
				err = fmt.Errorf("want a number")
			} else {
				r.weight = uint32(n)
			}
		case "lvs_method", "lb_kind":
			v.method(b)
		case "uthreshold":
			r.limits.upper, err = threshold(b.value(1))
		case "lthreshold":
			r.limits.lower, err = threshold(b.value(1))
		case "notify_up", "notify_down":
			v.note(b.at, noteNotify, b.words[0])
		case "smtp_alert", "warmup", "snmp_name":
			v.keepalivedRest(b)
		case "inhibit_on_failure", "alpha", "delay_loop", "retry", "delay_before_retry", "connect_timeout", "virtualhost":
		default:
			if !slices.Contains(checkers, b.words[0]) {
				v.note(b.at, "%s: not known here", unknown(b))
			}
		}
		if err != nil {
			v.noteChange(b.at, "%s: %v", title(b), err)
		}
		err = nil
	}
	return r, nil
}
