package lab

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
)

// A Real is a real server of a virtual server.
type Real struct {
	Network       string // tcp, udp
	Virtual, Addr netip.AddrPort
}

// Weights reads the weights of all real servers, of which there may be about fifty. In
// mode ipvs it starts no program, so it can be asked many times a second. If there is no
// virtual server, it returns what Chosen does, after a pause: Chosen starts two programs,
// and a guest that does nothing else has no time for what is tested.
//
// Linux 6.1 leaves out virtual servers where a list is read in several parts and
// other namespaces have some too: the place to go on from counts theirs, and the
// search for it does not. So a list that one read does not give whole is an error.
func (h *Host) Weights() (weights map[Real]int, err error) {
	err = h.Do(func() error {
		f, err := os.Open("/proc/thread-self/net/ip_vs")
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		text := make([]byte, 64<<10)
		n, err := f.Read(text)
		if err != nil {
			return err
		}
		if _, err := f.Read(make([]byte, 1)); err != io.EOF {
			return fmt.Errorf("the list of virtual servers is longer than the %d bytes that come at once: %v", n, err)
		}
		weights, err = parseWeights(string(text[:n]))
		return err
	})
	if err == nil && len(weights) == 0 {
		time.Sleep(500 * time.Millisecond)
		return h.Chosen()
	}
	return weights, err
}

// parseWeights reads lines like
//
//	TCP  0A600014:0050 rr
//	  -> 0A02010A:1B58      Masq    1      0          0
func parseWeights(text string) (map[Real]int, error) {
	weights := map[Real]int{}
	var network string
	var virtual netip.AddrPort
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		var err error
		switch {
		case len(f) > 2 && (f[0] == "TCP" || f[0] == "UDP"):
			network = strings.ToLower(f[0])
			virtual, err = hexAddr(f[1])
		case len(f) == 6 && f[0] == "->" && f[1] != "RemoteAddress:Port" && virtual.IsValid():
			var real netip.AddrPort
			if real, err = hexAddr(f[1]); err == nil {
				weights[Real{network, virtual, real}], err = strconv.Atoi(f[3])
			}
		}
		if err != nil {
			return nil, fmt.Errorf("ip_vs line %q: %w", line, err)
		}
	}
	return weights, nil
}

// hexAddr reads 0A600014:0050, or [fd00:0096:0000:0000:0000:0000:0000:0020]:0050.
func hexAddr(s string) (netip.AddrPort, error) {
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return netip.AddrPort{}, fmt.Errorf("%q has no port", s)
	}
	port, err := strconv.ParseUint(s[colon+1:], 16, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if text, ok := strings.CutPrefix(s[:colon], "["); ok {
		addr, err := netip.ParseAddr(strings.TrimSuffix(text, "]"))
		return netip.AddrPortFrom(addr, uint16(port)), err
	}
	b, err := hex.DecodeString(s[:colon])
	if err != nil || len(b) != 4 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", s)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b)), uint16(port)), nil
}
