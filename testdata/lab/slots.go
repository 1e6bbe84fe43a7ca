package lab

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// localSlots is the first slot of endpoints on this node.
const localSlots = 1 << 15

// addSlots reads what the maps of mode nftables choose from, as Chosen does with rules. There may be none.
func (h *Host) addSlots(weights map[Real]int) error {
	for _, words := range []string{"ip svcproxy KUBE-SLOTS", "ip6 svcproxy KUBE-6-SLOTS"} {
		text, err := h.Run("nft", append([]string{"-j", "list", "map"}, strings.Fields(words)...)...)
		if err != nil {
			continue
		}
		var listed struct {
			Nftables []struct {
				Map struct {
					Elem [][2]fields
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &listed); err != nil {
			return fmt.Errorf("nft list map %s: %w", words, err)
		}
		shares := map[Real]map[netip.AddrPort]int{} // by frontend without Addr
		local := map[Real]map[netip.AddrPort]int{}
		for _, x := range listed.Nftables {
			for _, e := range x.Map.Elem {
				front, slot, to := fromConcat(e[0].all(), e[1].all())
				into := shares
				if slot >= localSlots {
					into = local
				}
				if into[front] == nil {
					into[front] = map[netip.AddrPort]int{}
				}
				into[front][to]++
			}
		}
		for front, to := range local {
			shares[front] = to
		}
		for front, to := range shares {
			sum := 0
			for _, n := range to {
				sum += n
			}
			var list []translation
			for at, n := range to {
				list = append(list, translation{at, float64(n) / float64(sum)})
			}
			addShares(weights, front, list)
		}
	}
	return nil
}

// fields are a key or a value. A key with a counter has it beside it, one level down.
type fields struct {
	Concat []any
	Elem   struct{ Val struct{ Concat []any } }
}

func (f *fields) all() []any {
	if f.Concat != nil {
		return f.Concat
	}
	return f.Elem.Val.Concat
}

// fromConcat reads an element: ["10.96.0.1", "tcp", 80, "0:1"] and ["10.2.0.1", 8080]. The slot is a class, in
// hexadecimal digits; 0 is "none".
func fromConcat(key, value []any) (front Real, slot int, to netip.AddrPort) {
	addr := func(v any) netip.Addr { a, _ := netip.ParseAddr(fmt.Sprint(v)); return a }
	number := func(v any) int { n, _ := v.(float64); return int(n) }
	if len(key) == 4 && len(value) == 2 {
		front = Real{Network: fmt.Sprint(key[1]), Virtual: netip.AddrPortFrom(addr(key[0]), uint16(number(key[2])))}
		_, class, _ := strings.Cut(fmt.Sprint(key[3]), ":")
		n, _ := strconv.ParseUint(class, 16, 16)
		slot, to = int(n), netip.AddrPortFrom(addr(value[0]), uint16(number(value[1])))
	}
	return front, slot, to
}
