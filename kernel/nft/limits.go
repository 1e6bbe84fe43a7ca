package nft

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// count adds the counter of a rule in the table of limits.
func (c *compiler) count() {
	if c.table == kernel.LimitsTable {
		c.add("counter")
		c.say("counter")
	}
}

// seconds are the units of a rate.
var seconds = map[string]uint64{"second": 1, "minute": 60, "hour": 3600}

// rate matches packets above a rate: --limit-above 50/second --limit-burst 100, and behind it for each client
// --meter NAME --timeout SECONDS. A client for whom the meter has no room does not match.
func (c *compiler) rate(value string) error {
	number, unit, _ := strings.Cut(value, "/")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || seconds[unit] == 0 || c.invert {
		return fmt.Errorf("rate %q", value)
	}
	burst, err := c.numbered("--limit-burst")
	if err != nil {
		return err
	}
	e := expr{"limit", []attr{num64(unix.NFTA_LIMIT_RATE, n), num64(unix.NFTA_LIMIT_UNIT, seconds[unit]),
		num(unix.NFTA_LIMIT_BURST, burst), num(unix.NFTA_LIMIT_TYPE, unix.NFT_LIMIT_PKTS),
		num(unix.NFTA_LIMIT_FLAGS, unix.NFT_LIMIT_F_INV)}}
	return c.above(e, fmt.Sprintf("limit rate over %d/%s burst %d packets", n, unit, burst), unix.NFT_DYNSET_OP_UPDATE)
}

// connections matches above a number of connections that are open: --connlimit-above 200, and --meter NAME.
func (c *compiler) connections(value string) error {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil || c.invert {
		return fmt.Errorf("number of connections %q", value)
	}
	e := expr{"connlimit", []attr{num(connlimitMost, uint32(n)),
		num(connlimitFlag, connlimitOver)}}
	return c.above(e, fmt.Sprintf("ct count over %d", n), unix.NFT_DYNSET_OP_ADD)
}

// above adds a limit, or one in a meter for each client.
func (c *compiler) above(limit expr, says string, op uint32) error {
	if len(c.words) == 0 || c.words[0].Text != "--meter" {
		c.exprs = append(c.exprs, limit)
		c.say("%s", says)
		return nil
	}
	name, err := c.value("--meter")
	if err != nil {
		return err
	}
	shape, err := c.shape(name)
	if err != nil || !shape.meter {
		return errors.Join(err, fmt.Errorf("meter %q", name))
	}
	_, key := c.loadAddr(0, "src")
	key = c.client(key)
	attrs := []attr{text(unix.NFTA_DYNSET_SET_NAME, name), num(unix.NFTA_DYNSET_OP, op),
		num(unix.NFTA_DYNSET_SREG_KEY, reg(0)), nest(unix.NFTA_DYNSET_EXPR, text(unix.NFTA_EXPR_NAME, limit.name),
			nest(unix.NFTA_EXPR_DATA, limit.attrs...))}
	verb := "add"
	if op == unix.NFT_DYNSET_OP_UPDATE {
		expires, err := c.numbered("--timeout")
		if err != nil {
			return err
		}
		attrs = append(attrs, num64(unix.NFTA_DYNSET_TIMEOUT, uint64(expires)*1000))
		verb, key = "update", fmt.Sprintf("%s timeout %ds", key, expires)
	}
	c.add("dynset", attrs...)
	c.say("%s @%s { %s %s }", verb, name, key, says)
	return nil
}

// client makes the source address in the first register what a meter counts: of IPv6 its network of 64 bits, in which
// one host may have any address.
func (c *compiler) client(name string) string {
	if c.family == kernel.IPv4 {
		return name
	}
	mask := maskOf(64, c.family.Bits())
	c.mask(0, mask, make([]byte, len(mask)))
	return name + " and " + addrText(mask)
}

// putEnd appends the element behind the last address of a network. ok is false if there is no such address.
func putEnd(b *nl.Batch, e *kernel.Entry) (ok bool) {
	end := lastOf(e.Second).Next()
	if !end.IsValid() {
		return false
	}
	var k key
	k.addr(end, kernel.FamilyOf(end))
	elem := b.Nest(unix.NFTA_LIST_ELEM)
	putKey(b, unix.NFTA_SET_ELEM_KEY, &k)
	b.U32BE(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)
	b.EndNest(elem)
	return true
}

// bound is an element of a set of ranges: the first address of one, or the one behind its last.
type bound struct {
	addr netip.Addr
	end  bool
}

// eachNetwork is eachElement for a set of networks. The program nft begins a set with an end at the address 0.
func (t *Table) eachNetwork(s kernel.Set, each func(e kernel.Entry, ok bool)) error {
	all, odd, size := []bound(nil), false, s.Family.Bits()/8
	restart := func() { all, odd = all[:0], false }
	err := t.eachRaw(s, restart, func(a nl.Attrs) error {
		var b bound
		for a.Next() {
			switch a.Type() {
			case unix.NFTA_SET_ELEM_KEY:
				p := value(a.Nested())
				b.addr, _ = netip.AddrFromSlice(p)
				odd = odd || len(p) != size
			case unix.NFTA_SET_ELEM_FLAGS:
				flags := a.U32BE()
				b.end = flags == unix.NFT_SET_ELEM_INTERVAL_END
				odd = odd || flags != 0 && !b.end
			case unix.NFTA_SET_ELEM_TIMEOUT, unix.NFTA_SET_ELEM_EXPIRATION:
				odd = true
			}
		}
		all = append(all, b)
		return a.Err()
	})
	slices.SortFunc(all, func(a, b bound) int {
		if c := a.addr.Compare(b.addr); c != 0 || a.end == b.end {
			return c
		}
		if a.end {
			return -1
		}
		return 1
	})
	if len(all) > 0 && all[0].end && all[0].addr.IsUnspecified() {
		all = all[1:]
	}
	for i := 0; i < len(all) && err == nil && !odd; i++ {
		from, last := all[i], netip.Addr{}
		switch odd = from.end; {
		case i+1 == len(all):
			last = lastOf(netip.PrefixFrom(from.addr, 0))
		case all[i+1].end:
			i++
			last = all[i].addr.Prev()
		}
		p, whole := netip.Prefix{}, false
		if last.IsValid() && !odd {
			p, whole = prefixOf(from.addr.AsSlice(), last.AsSlice())
		}
		each(kernel.NetEntry(s.Name, p), whole)
	}
	if odd {
		each(kernel.Entry{Set: s.Name}, false)
	}
	return err
}
