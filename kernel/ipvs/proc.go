package ipvs

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"

	"github.com/svcproxy/svcproxy/kernel"
)

// proc is /proc/net/ip_vs: all real servers in one text. Reading it costs a quarter of one dump for
// each virtual server. It lacks persistence templates, flags, netmasks, thresholds and the types of
// tunnels, so it serves only virtual servers without any of these.
//
// The file stays open, like the sockets, because opening it chooses the network namespace.
type proc struct {
	file *os.File
	last int // number of real servers in the last reading: capacity for the next
}

func openProc() (proc, error) {
	f, err := os.Open("/proc/thread-self/net/ip_vs")
	return proc{file: f}, err
}

func (p *proc) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}

// procDests is the real servers of many virtual servers: dests, and where in it those of each are.
type procDests struct {
	dests []dest
	of    map[kernel.VirtualKey]span
}

type span struct{ from, to int }

func (p procDests) get(k kernel.VirtualKey) ([]dest, bool) {
	s, ok := p.of[k]
	return p.dests[s.from:s.to], ok
}

// read reads the real servers of the IPv6 virtual servers, or of both families.
func (p *proc) read(both bool) (procDests, error) {
	if p.file == nil {
		return procDests{}, errors.New("no /proc/net/ip_vs")
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return procDests{}, err
	}
	d, err := parseProc(p.file, both, p.last)
	p.last = len(d.dests) + len(d.dests)/8
	return d, err
}

// parseProc parses the IPv6 virtual servers of the text, or those of both families. It expects
// about n real servers. The lines are, from ip_vs_info_seq_show,
//
//	TCP  [fd00:0000:0000:0000:0000:0000:0000:0010]:0035 wrr
//	  -> [fd01:0000:0000:0000:0000:0000:0000:0001]:0050      Masq    1      0          0
//
// with ports in hexadecimal. The last columns are weight, active and inactive connections.
func parseProc(r io.Reader, both bool, n int) (procDests, error) {
	p := procDests{dests: make([]dest, 0, n), of: make(map[kernel.VirtualKey]span)}
	var key kernel.VirtualKey // zero inside a virtual server to skip
	start := 0
	end := func() {
		if key.Addr.IsValid() {
			p.of[key] = span{start, len(p.dests)}
		}
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Bytes()
		arrow, isReal := bytes.CutPrefix(line, []byte("  -> "))
		switch {
		case !isReal:
			end()
			var err error
			if key, err = procVirtual(line, both); err != nil {
				return procDests{}, err
			}
			start = len(p.dests)
		case key.Addr.IsValid():
			d, err := procReal(arrow)
			if err != nil {
				return procDests{}, err
			}
			d.Key.Virtual = key
			p.dests = append(p.dests, d)
		}
	}
	end()
	return p, lines.Err()
}

// procVirtual returns the key of a line with a virtual server, an IPv6 one or of both families. For
// any other line it is zero.
func procVirtual(line []byte, both bool) (kernel.VirtualKey, error) {
	name, rest, _ := bytes.Cut(line, []byte(" "))
	rest = bytes.TrimLeft(rest, " ")
	proto, ok := procProtos[string(name)]
	switch six := len(rest) > 0 && rest[0] == '['; {
	case six && !ok:
		return kernel.VirtualKey{}, fmt.Errorf("/proc/net/ip_vs: unknown protocol in %q", line)
	case !six && !(both && ok):
		return kernel.VirtualKey{}, nil // a heading, a firewall mark, or IPv4
	}
	addr, _, err := procAddr(rest)
	return kernel.VirtualAt(addr, proto), err
}

var procProtos = map[string]kernel.Proto{"TCP": kernel.TCP, "UDP": kernel.UDP, "SCTP": kernel.SCTP}

// procForwards has the names from ip_vs_fwd_name.
var procForwards = map[string]kernel.Forward{
	"Masq": kernel.Masquerade, "Local": kernel.LocalNode, "Tunnel": kernel.Tunnel, "Route": kernel.Direct,
}

// procReal parses the line of a real server after its arrow.
func procReal(line []byte) (d dest, err error) {
	if d.Key.Addr, line, err = procAddr(line); err != nil {
		return dest{}, err
	}
	column := func() []byte {
		line = bytes.TrimLeft(line, " ")
		var f []byte
		f, line, _ = bytes.Cut(line, []byte(" "))
		return f
	}
	name := column()
	var known bool
	if d.Forward, known = procForwards[string(name)]; !known {
		return dest{}, fmt.Errorf("/proc/net/ip_vs: unknown forwarding method %q", name)
	}
	for _, n := range []*uint32{&d.Weight, &d.Active, &d.Inactive} {
		text := column()
		v, err := strconv.ParseUint(string(text), 10, 32)
		if err != nil {
			return dest{}, fmt.Errorf("/proc/net/ip_vs: %q is not a number", text)
		}
		*n = uint32(v)
	}
	return d, nil
}

// procAddr parses an address and port at the start of p: [IPv6 in full]:HHHH or HHHHHHHH:HHHH.
func procAddr(p []byte) (netip.AddrPort, []byte, error) {
	text, rest, _ := bytes.Cut(p, []byte(" "))
	var digits [36]byte
	n := 0
	for _, c := range text {
		if c == '[' || c == ']' || c == ':' {
			continue
		}
		if n == len(digits) {
			n = 0
			break
		}
		digits[n] = c
		n++
	}
	var raw [18]byte
	if _, err := hex.Decode(raw[:], digits[:n]); err == nil {
		switch {
		case n == 36 && text[0] == '[':
			return netip.AddrPortFrom(netip.AddrFrom16([16]byte(raw[:16])), uint16(raw[16])<<8|uint16(raw[17])), rest, nil
		case n == 12 && text[0] != '[':
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte(raw[:4])), uint16(raw[4])<<8|uint16(raw[5])), rest, nil
		}
	}
	return netip.AddrPort{}, nil, fmt.Errorf("/proc/net/ip_vs: %q is no address and port", text)
}
