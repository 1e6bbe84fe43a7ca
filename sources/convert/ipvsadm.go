package convert

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
)

// readIPVSAdm reads what ipvsadm-save -n or ipvsadm -Sn prints.
func readIPVSAdm(f File) (Result, error) {
	p := ipvsadm{index: map[string]int{}}
	line := 0
	for text := range strings.Lines(string(f.Data)) {
		line++
		words := strings.Fields(strings.SplitN(text, "#", 2)[0])
		if len(words) > 0 && words[0] == "sudo" {
			words = words[1:]
		}
		if len(words) > 0 && path.Base(words[0]) == "ipvsadm" {
			words = words[1:] // a script of commands
		}
		if len(words) == 0 {
			continue
		}
		at := sources.Origin{Source: string(IPVSAdm), File: f.Name, Line: line}
		if err := p.command(at, words); err != nil {
			return Result{}, fmt.Errorf("%s: %w", at, err)
		}
	}
	r := services(p.virtuals)
	r.Notes = append(r.Notes, p.notes...)
	r.sortNotes()
	return r, nil
}

type ipvsadm struct {
	virtuals []virtual
	index    map[string]int // by protocol and address: in virtuals, or -1 if it is not imported
	notes    []Note
}

// longOptions are the long names of ipvsadm's options.
var longOptions = map[string]string{
	"--add-service": "-A", "--add-server": "-a", "--clear": "-C",
	"--tcp-service": "-t", "--udp-service": "-u", "--fwmark-service": "-f", "--ipv6": "-6",
	"--scheduler": "-s", "--persistent": "-p", "--netmask": "-M", "--ops": "-o", "--sched-flags": "-b",
	"--real-server": "-r", "--weight": "-w", "--u-threshold": "-x", "--l-threshold": "-y",
	"--masquerading": "-m", "--gatewaying": "-g", "--ipip": "-i", "--zero": "-Z", "--list": "-L",
}

// valued are the options that have a value. That of -p may be left out.
const valued = "-t -u -f --sctp-service -s -p -M -b -r -w -x -y --pe --tun-type --tun-port"

// The options of the commands to add.
const (
	ofVirtual = "-A -t -u -f -6 --sctp-service -s -p -M -o -b --pe"
	ofReal    = "-a -t -u -f -6 --sctp-service -r -g -i -m -l -w -x -y --tun-type --tun-port --tun-nocsum --tun-csum " +
		"--tun-remcsum"
)

func (p *ipvsadm) command(at sources.Origin, words []string) error {
	if slices.Contains([]string{"--set", "--start-daemon", "--stop-daemon", "-Z", "--zero", "-L", "-l", "--list"},
		words[0]) {
		message := words[0] + ": svcproxy does not have it"
		switch words[0] {
		case "--set":
			message = words[0] + ": set tcpTimeout, tcpFinTimeout and udpTimeout in the table [ipvs] of svcproxy.toml"
		case "--start-daemon":
			message = words[0] + ": set the table [ha.sync] of svcproxy.toml"
		}
		p.notes = append(p.notes, Note{Origin: at, Message: message})
		return nil
	}
	o, err := options(words)
	if err != nil {
		return err
	}
	switch {
	case o["-C"] != nil:
		return only(o, []string{"-C"})
	case o["-A"] != nil:
		if err := only(o, strings.Fields(ofVirtual)); err != nil {
			return err
		}
		return p.addVirtual(at, o)
	case o["-a"] != nil:
		if err := only(o, strings.Fields(ofReal)); err != nil {
			return err
		}
		return p.addReal(at, o)
	}
	return fmt.Errorf("want a command to add, -A or -a, as ipvsadm-save prints them")
}

// only returns an error if a command has an option that it cannot have, or has one twice.
func only(o map[string][]string, allowed []string) error {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		switch {
		case !slices.Contains(allowed, name):
			return fmt.Errorf("option %s: this command does not have it", name)
		case len(o[name]) > 1:
			return fmt.Errorf("option %s is there twice", name)
		}
	}
	return nil
}

// options reads the options of a command, by their short names.
func options(words []string) (map[string][]string, error) {
	o := map[string][]string{}
	for i := 0; i < len(words); i++ {
		name, value, given := strings.Cut(words[i], "=")
		if short, ok := longOptions[name]; ok {
			name = short
		}
		if !strings.HasPrefix(name, "-") {
			return nil, fmt.Errorf("want an option of ipvsadm, which begins with -")
		}
		takes := strings.Contains(" "+valued+" ", " "+name+" ")
		if takes && !given {
			if i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
				i++
				value = words[i]
			} else if name != "-p" {
				return nil, fmt.Errorf("%s has no value", name)
			}
		}
		o[name] = append(o[name], value)
	}
	return o, nil
}

// key returns the virtual server that a command is about.
func key(o map[string][]string) (name string, addr netip.AddrPort, proto sources.Protocol, err error) {
	kinds := 0
	for _, option := range []string{"-t", "-u", "--sctp-service", "-f"} {
		kinds += len(o[option])
	}
	if kinds > 1 {
		return "", netip.AddrPort{}, 0, fmt.Errorf("want one of -t, -u, --sctp-service and -f")
	}
	for option, proto := range map[string]sources.Protocol{"-t": sources.TCP, "-u": sources.UDP,
		"--sctp-service": sources.SCTP} {
		if v := o[option]; v != nil {
			text := v[0]
			if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil { // all ports
				text = netip.AddrPortFrom(a, 0).String()
			}
			addr, err := address(text)
			return option + addr.String(), addr, proto, err
		}
	}
	if v := o["-f"]; v != nil {
		name := "-f" + v[0]
		if o["-6"] != nil { // marks of the two families are apart
			name += " -6"
		}
		return name, netip.AddrPort{}, 0, nil
	}
	return "", netip.AddrPort{}, 0, fmt.Errorf(
		"want the virtual server: -t, -u or --sctp-service ADDRESS:PORT, or -f MARK")
}

// address reads ADDRESS:PORT. Names need the option -n of ipvsadm-save.
func address(text string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(text)
	if err != nil || a.Addr().Zone() != "" {
		return a, fmt.Errorf("want ADDRESS:PORT in numbers, as ipvsadm-save -n prints them")
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
}

// allPorts says how to serve all ports of an address. Import cannot do it: the rule is the administrator's.
func allPorts(a netip.Addr, p sources.Protocol) string {
	tool, mask := "iptables", 32
	if a.Is6() {
		tool, mask = "ip6tables", 128
	}
	return fmt.Sprintf("virtual server %s with all ports: mark its packets, %s -t mangle -A PREROUTING -d %s/%d -p %s "+
		"-j MARK --set-mark N, with a number that nothing else uses; write fwmark = N and these backends in a service; and "+
		"give %[1]s to a link of this node", a, tool, a, mask, strings.ToLower(p.String()))
}

// firewallMark reads a mark in decimal or, with 0x, hexadecimal digits.
func firewallMark(text string) (uint32, error) {
	base, digits := 10, text
	if rest, hex := strings.CutPrefix(strings.ToLower(text), "0x"); hex {
		base, digits = 16, rest
	}
	n, err := strconv.ParseUint(digits, base, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("firewall mark: want a number from 1 to 4294967295")
	}
	return uint32(n), nil
}

func (p *ipvsadm) addVirtual(at sources.Origin, o map[string][]string) error {
	name, addr, protocol, err := key(o)
	if err != nil {
		return err
	}
	if _, twice := p.index[name]; twice {
		return fmt.Errorf("this virtual server is there twice")
	}
	leave := func(why string) error {
		p.index[name] = -1
		p.notes = append(p.notes, Note{Origin: at, Message: why, Danger: Feature})
		return nil
	}
	switch {
	case o["-f"] == nil && addr.Port() == 0:
		return leave(allPorts(addr.Addr(), protocol))
	}
	v := virtual{at: at, addr: addr, protocol: protocol}
	if f := o["-f"]; f != nil {
		if v.mark, err = firewallMark(f[0]); err != nil {
			return err
		}
		v.ipv6 = o["-6"] != nil
	}
	if s := o["-s"]; s != nil {
		v.setScheduler(at, s[0])
	} else {
		v.setScheduler(at, "wlc") // ipvsadm's default
	}
	if s := o["-p"]; s != nil {
		seconds := uint64(300) // ipvsadm's default
		if s[0] != "" {
			if seconds, err = strconv.ParseUint(s[0], 10, 32); err != nil {
				return fmt.Errorf("-p: want seconds")
			}
		}
		v.setAffinity(at, seconds)
	}
	v.ipvsFlags(at, o)
	p.index[name] = len(p.virtuals)
	p.virtuals = append(p.virtuals, v)
	return nil
}

// ipvsFlags takes how a virtual server of IPVS balances, and notes what a service cannot have.
func (v *virtual) ipvsFlags(at sources.Origin, o map[string][]string) {
	if m := o["-M"]; m != nil {
		v.granularity(at, "-M", m[0])
	}
	if o["-o"] != nil {
		v.oneByOne(at)
	}
	if pe := o["--pe"]; pe != nil {
		v.noteChange(at, "persistence engine %s: svcproxy does not have it", pe[0])
	}
	if b := o["-b"]; b != nil {
		for flag := range strings.SplitSeq(b[0], ",") {
			v.flag(at, flag)
		}
	}
}

func (p *ipvsadm) addReal(at sources.Origin, o map[string][]string) error {
	name, virtual, _, err := key(o)
	if err != nil {
		return err
	}
	i, known := p.index[name]
	switch {
	case !known:
		return fmt.Errorf("a real server of a virtual server that was not added before")
	case i < 0:
		return nil
	case o["-r"] == nil:
		return fmt.Errorf("want the real server, -r ADDRESS:PORT")
	}
	text := o["-r"][0]
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil { // the port of the virtual server
		text = netip.AddrPortFrom(a, virtual.Port()).String()
	}
	r := real{at: at, weight: sources.DefaultWeight}
	if r.addr, err = address(text); err != nil {
		return err
	}
	if w := o["-w"]; w != nil {
		n, err := strconv.ParseUint(w[0], 10, 31)
		if err != nil {
			return fmt.Errorf("-w: want a weight")
		}
		r.weight = uint32(n)
	}
	v := &p.virtuals[i]
	v.ipvsForward(at, o)
	if err := r.limits.ipvsadm(o); err != nil {
		return err
	}
	v.add(r)
	return nil
}

// ipvsForward takes how packets reach a real server. ipvsadm's default is direct routing.
func (v *virtual) ipvsForward(at sources.Origin, o map[string][]string) {
	switch {
	case o["-m"] != nil || o["-l"] != nil: // -l: the kernel's word for one of this node's own addresses
		v.setForward(at, sources.Masquerade, "-m")
	case o["-i"] == nil:
		v.setForward(at, sources.Direct, "-g")
	case o["--tun-type"] == nil || o["--tun-type"][0] == "ipip":
		v.setForward(at, sources.IPIP, "-i")
	case o["--tun-type"][0] == "gue":
		v.setForward(at, sources.GUE, "--tun-type gue")
		if port := o["--tun-port"]; port != nil && port[0] != "6080" {
			v.note(at, "--tun-port %s: set ipvs.guePort = %s in svcproxy.toml", port[0], port[0])
		}
	default:
		v.setForward(at, "", "--tun-type "+o["--tun-type"][0])
	}
	for _, flag := range []string{"--tun-csum", "--tun-remcsum"} {
		if o[flag] != nil {
			v.note(at, "%s: svcproxy sends no checksums", flag)
		}
	}
}
