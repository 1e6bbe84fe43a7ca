package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Each slot counts how often it was chosen: once for each new connection, since only the first packet of a connection
// is translated by rules. When a slot goes or is written again, its count ends. The kernel tells that with the commit,
// and the process keeps it.

// maxCounted is how many slots a map may have when it is made, to count: a counter takes 16 bytes for each processor.
const maxCounted = 100_000

// maxEchoed bounds the removed slots of a transaction whose counts the kernel tells: they must fit in a receive buffer.
// What more of them had is lost.
const maxEchoed = 4000

// maxEnded bounds the endpoints whose removed slots are remembered until somebody reads.
const maxEnded = 100_000

// Counts reads how many connections went to endpoints. It has its own socket. Any goroutine may use it.
type Counts struct {
	conn  *nl.Conn
	names kernel.Names
	ended *ended
}

// ended is what removed slots counted, by address and endpoint; under no endpoint is what those had that the address
// no longer has. Of limits it is what removed rules counted.
type ended struct {
	names   kernel.Names
	mu      sync.Mutex // held from a commit that removes some until their counts are here, and while others are read
	counts  map[kernel.RealKey]uint64
	refused map[string]kernel.Refusals
}

// Counts returns the counts of the slots that the table writes.
func (t *Table) Counts(d *nl.Dialer) (*Counts, error) {
	c, err := d.Dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("opening nftables: %w", err)
	}
	return &Counts{conn: c, names: t.names, ended: t.ended}, nil
}

// Close releases the socket.
func (c *Counts) Close() error { return c.conn.Close() }

// Read returns the connections to the endpoints of each address, sorted. Those under no endpoint went to endpoints
// that the address no longer has. They count from when the process began to write the map, or what it found there. The
// result is nil if the map does not count: an earlier version made it, or it was large. One goroutine at a time may
// call it. Changes wait meanwhile.
func (c *Counts) Read() ([]kernel.RealTraffic, error) {
	c.ended.mu.Lock()
	defer c.ended.mu.Unlock()
	var all []kernel.RealTraffic
	there, counted := false, true
	for _, f := range families {
		start := len(all)
		b := new(nl.Batch)
		begin(b, unix.NFT_MSG_GETSETELEM, 0, f)
		b.Text(unix.NFTA_SET_ELEM_LIST_TABLE, c.names.Table())
		b.Text(unix.NFTA_SET_ELEM_LIST_SET, c.names.Set(f, kernel.Slots))
		b.End()
		err := c.conn.Dump(b, func() { all = all[:start] }, func(p []byte) error {
			return eachSlot(p, func(k kernel.RealKey, n uint64, has bool) {
				counted = counted && has
				all = append(all, kernel.RealTraffic{Key: k, Traffic: kernel.Traffic{Conns: n}})
			})
		})
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the slots of nftables: %w", err)
		}
		there = true
	}
	if !there || !counted {
		return nil, nil
	}
	all, c.ended.counts = sum(all, c.ended.counts)
	return all, nil
}

// sum returns the connections of each endpoint: those of its slots, of which there may be several, and of its removed
// ones. left is what of those stays remembered: nothing of an address without slots.
func sum(slots []kernel.RealTraffic, ended map[kernel.RealKey]uint64) (all []kernel.RealTraffic,
	left map[kernel.RealKey]uint64) {
	left = make(map[kernel.RealKey]uint64, len(ended))
	at := make(map[kernel.RealKey]int, len(slots)) // -1: only the address is there
	all = slots[:0]
	for _, s := range slots {
		if i, found := at[s.Key]; found {
			all[i].Conns += s.Conns
			continue
		}
		at[s.Key], at[kernel.RealKey{Virtual: s.Key.Virtual}] = len(all), -1
		all = append(all, s)
	}
	for k, n := range ended {
		if _, found := at[k]; !found {
			k = kernel.RealKey{Virtual: k.Virtual}
		}
		if _, found := at[k]; found {
			left[k] += n
		}
	}
	for k, n := range left {
		if i := at[k]; i >= 0 {
			all[i].Conns += n
		} else {
			all = append(all, kernel.RealTraffic{Key: k, Traffic: kernel.Traffic{Conns: n}})
		}
	}
	slices.SortFunc(all, func(a, b kernel.RealTraffic) int { return a.Key.Compare(b.Key) })
	return all, left
}

// add keeps what the removed slots or rules of a message of the kernel counted.
func (e *ended) add(typ uint16, p []byte) {
	if typ == unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_DELRULE {
		e.addRule(p)
	}
	if typ != unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_DELSETELEM {
		return
	}
	if e.counts == nil || len(e.counts) > maxEnded {
		e.counts = make(map[kernel.RealKey]uint64)
	}
	// A message that is not understood has counts that are lost, no more.
	_ = eachSlot(p, func(k kernel.RealKey, n uint64, _ bool) {
		if n > 0 {
			e.counts[k] += n
		}
	})
}

// eachSlot gives the slots in a message about elements of the map, with their counts if they have any.
func eachSlot(p []byte, each func(k kernel.RealKey, n uint64, counted bool)) error {
	a, err := payload(p)
	if err != nil {
		return err
	}
	shape, f := shapes[kernel.MapIPPortSlot], kernel.Family(p[0]) // struct nfgenmsg
	for a.Next() {
		if a.Type() != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			continue
		}
		list := a.Nested()
		for list.Next() {
			e, ok, err := shape.decode(list.Nested(), f, nil)
			if err != nil {
				return err
			}
			if n, counted := countOf(list.Nested()); ok {
				each(kernel.RealKey{Virtual: e.Key(), Addr: e.To()}, n, counted)
			}
		}
		if list.Err() != nil {
			return list.Err()
		}
	}
	return a.Err()
}

// countOf returns the packets that an element's counter has seen.
func countOf(elem nl.Attrs) (n uint64, counted bool) {
	for elem.Next() {
		if elem.Type() != unix.NFTA_SET_ELEM_EXPR {
			continue
		}
		n, counted = packets(elem.Nested())
	}
	return n, counted
}

// packets returns what an expression has counted, if it is a counter.
func packets(expr nl.Attrs) (n uint64, counted bool) {
	counter := false
	for expr.Next() {
		if expr.Type() == unix.NFTA_EXPR_NAME {
			counter = expr.Text() == "counter"
		}
		if expr.Type() != unix.NFTA_EXPR_DATA || !counter {
			continue
		}
		for a := expr.Nested(); a.Next(); {
			if a.Type() == unix.NFTA_COUNTER_PACKETS && len(a.Bytes()) == 8 {
				n, counted = binary.BigEndian.Uint64(a.Bytes()), true
			}
		}
	}
	return n, counted
}

// putCounter makes a set count the look-ups of its elements.
func putCounter(b *nl.Batch) {
	in := b.Nest(setExpr)
	b.Text(unix.NFTA_EXPR_NAME, "counter")
	b.EndNest(in)
}
