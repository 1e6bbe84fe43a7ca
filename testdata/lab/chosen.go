package lab

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Chosen reads what the rules of mode iptables, or the maps of mode nftables, choose from for new connections, with
// the weights that their probabilities amount to; the smallest weight of a virtual
// server is 1.
func (h *Host) Chosen() (map[Real]int, error) {
	weights := map[Real]int{}
	for _, tool := range []string{"iptables-save", "ip6tables-save"} {
		text, err := h.Run(tool, "-t", "nat")
		if err != nil {
			return nil, err
		}
		if err := addChosen(weights, text); err != nil {
			return nil, fmt.Errorf("%s: %w", tool, err)
		}
	}
	return weights, h.addSlots(weights)
}

// A translation is a rule that gives connections to an endpoint.
type translation struct {
	to    netip.AddrPort
	share float64 // of all connections
}

// addChosen reads rules like
//
//	-A KUBE-SERVICES -d 10.96.0.20/32 -p tcp -m comment --comment "default/web cluster IP" -m tcp --dport 80 -j KUBE-SVC-X
//	-A KUBE-SVC-X -p tcp -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination 10.2.1.10:7000
func addChosen(weights map[Real]int, text string) error {
	chains, jumps, left := map[string][]translation{}, map[string]string{}, map[string]float64{}
	fronts := map[Real]string{} // without Addr: the chain that packets go to
	var nodes []string          // addresses whose packets go to node ports, as prefixes
	nodePorts := map[[2]string]string{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "-A" {
			continue
		}
		of := func(flag string) string {
			if i := slices.Index(f, flag); i >= 0 && i+1 < len(f) {
				return f[i+1]
			}
			return ""
		}
		chain, to := f[1], of("-j")
		switch {
		case to == "DNAT" && of("--update") == "" && of("--rcheck") == "": // not those of affinity
			addr, err := netip.ParseAddrPort(of("--to-destination"))
			if err != nil {
				return fmt.Errorf("rule %q: %w", line, err)
			}
			p, rest := 1.0, 1-left[chain]
			if s := of("--probability"); s != "" {
				if p, err = strconv.ParseFloat(s, 64); err != nil {
					return fmt.Errorf("rule %q: %w", line, err)
				}
			}
			chains[chain] = append(chains[chain], translation{addr, p * rest})
			left[chain] += p * rest
		case of("-d") != "" && strings.HasSuffix(to, "-NODEPORTS"):
			nodes = append(nodes, of("-d"))
		case strings.HasSuffix(chain, "-NODEPORTS") && of("--dport") != "":
			nodePorts[[2]string{of("-p"), of("--dport")}] = to
		case of("-d") != "" && of("--dport") != "" && strings.Contains(to, "-"):
			if front, err := frontOf(of("-p"), of("-d"), of("--dport")); err == nil && fronts[front] == "" && !strings.Contains(to, "-MARK-") {
				fronts[front] = to
			}
		case strings.Contains(to, "-SVC-") || strings.Contains(to, "-SVL-"):
			jumps[chain] = to
		}
	}
	for port, to := range nodePorts {
		for _, node := range nodes {
			front, err := frontOf(port[0], node, port[1])
			if err != nil {
				return err
			}
			fronts[front] = to
		}
	}
	for front, chain := range fronts {
		if len(chains[chain]) == 0 {
			chain = jumps[chain]
		}
		addShares(weights, front, chains[chain])
	}
	return nil
}

// addShares adds the backends of a frontend. The one with the smallest share has weight 1.
func addShares(weights map[Real]int, front Real, to []translation) {
	smallest := 1.0
	for _, x := range to {
		smallest = min(smallest, x.share)
	}
	for _, x := range to {
		front.Addr = x.to
		weights[front] = int(math.Round(x.share / smallest))
	}
}

func frontOf(network, prefix, port string) (Real, error) {
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		return Real{}, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return Real{Network: network, Virtual: netip.AddrPortFrom(p.Addr(), uint16(number))}, err
}
