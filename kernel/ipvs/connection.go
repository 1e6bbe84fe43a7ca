package ipvs

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// Connection returns what IPVS keeps of a client's connection to a virtual server. It reads all connections,
// so it is for a question of an operator.
func Connection(v kernel.Virtual, client netip.AddrPort) (kernel.Connection, error) {
	f, err := os.Open("/proc/thread-self/net/ip_vs_conn")
	if errors.Is(err, fs.ErrNotExist) {
		return kernel.Connection{}, nil // this kernel has no IPVS
	}
	if err != nil {
		return kernel.Connection{}, fmt.Errorf("reading IPVS's connections: %w", err)
	}
	defer f.Close()
	return findConnection(f, v, client)
}

// findConnection reads the lines of ip_vs_conn_seq_show, with addresses of IPv4 and ports in hexadecimal:
//
//	Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData
//	TCP C0000209 9C40 0A600014 0050 0A02010A 1B58 ESTABLISHED     897
//
// The template of clients that are kept at a real server has port 0, and the address of their network by the
// netmask of the virtual server.
func findConnection(r io.Reader, v kernel.Virtual, client netip.AddrPort) (c kernel.Connection, err error) {
	network, err := client.Addr().Prefix(int(v.Netmask))
	if err != nil {
		return c, err
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 9 || procProtos[f[0]] != v.Key.Proto || v.Key.Proto == 0 {
			continue
		}
		var ends [3]netip.AddrPort
		for i := range ends {
			if ends[i], err = hexAddr(f[1+2*i], f[2+2*i]); err != nil {
				return c, fmt.Errorf("/proc/net/ip_vs_conn: %q: %w", lines.Text(), err)
			}
		}
		template := ends[0].Addr() == network.Addr() && ends[0].Port() == 0
		if ends[1] != v.Key.AddrPort() || ends[0] != client && !template {
			continue
		}
		expires, err := strconv.ParseUint(f[8], 10, 32)
		if err != nil {
			return c, fmt.Errorf("/proc/net/ip_vs_conn: %q: %w", lines.Text(), err)
		}
		if template {
			c.Kept, c.KeptFor = ends[2], uint32(expires)
		} else {
			c.Real, c.State, c.Expires = ends[2], f[7], uint32(expires)
		}
	}
	return c, lines.Err()
}

func hexAddr(addr, port string) (netip.AddrPort, error) {
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if strings.Contains(addr, ":") {
		a, err := netip.ParseAddr(addr)
		return netip.AddrPortFrom(a, uint16(n)), err
	}
	p, err := hex.DecodeString(addr)
	a, ok := netip.AddrFromSlice(p)
	if err == nil && !ok {
		err = fmt.Errorf("an address of %d bytes", len(p))
	}
	return netip.AddrPortFrom(a, uint16(n)), err
}
