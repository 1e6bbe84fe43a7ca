package ipvs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Counters reads the counters of IPVS. It has its own sockets and files, so it never blocks a
// Table. One goroutine at a time may use it, but any may call Stats.
type Counters struct {
	table *Table
	total *os.File // /proc/net/ip_vs_stats
}

// OpenCounters opens the counters in the network namespace of the calling thread. It fails as Open
// does.
func OpenCounters(d *nl.Dialer) (*Counters, error) {
	table, err := Open(d)
	if err != nil {
		return nil, err
	}
	total, err := os.Open("/proc/thread-self/net/ip_vs_stats")
	if err != nil {
		table.Close()
		return nil, fmt.Errorf("opening ipvs counters: %w", err)
	}
	return &Counters{table: table, total: total}, nil
}

// Close releases the sockets and files.
func (c *Counters) Close() error { return errors.Join(c.table.Close(), c.total.Close()) }

// Stats counts system calls and messages. Any goroutine may call it at any time.
func (c *Counters) Stats() Stats { return c.table.Stats() }

// Virtuals reads the counters of virtual servers alone, sorted. With 5,000 virtual servers of 5 real servers this
// is the smaller part of Read.
func (c *Counters) Virtuals() ([]kernel.VirtualCounters, error) {
	all, err := c.table.dumpTraffic()
	if err != nil {
		return nil, fmt.Errorf("reading counters: %w", err)
	}
	return all, nil
}

// Read reads the counters of virtual servers in one dump, and those of all real servers from
// /proc/net/ip_vs. The text has gaps if other network namespaces have virtual servers (see
// readProc). Missing ones are read one by one. The kernel adds up traffic every two seconds
// (ip_vs_est.c).
//
// With 5,000 virtual servers of 10 real servers on Linux 6.1, one getsockopt for each would take 29
// million instructions, and the text takes 206 million. But each getsockopt takes the lock that the
// sync loop needs to write. The text takes none.
func (c *Counters) Read() (kernel.Counters, error) {
	var r kernel.Counters
	var err error
	if r.Virtuals, err = c.Virtuals(); err != nil {
		return kernel.Counters{}, err
	}
	text, err := c.table.proc.read(true)
	if err != nil {
		return kernel.Counters{}, fmt.Errorf("reading connections: %w", err)
	}
	r.Reals = make([]kernel.RealCounters, 0, len(text.dests))
	kept := r.Virtuals[:0]
	for _, v := range r.Virtuals {
		all, ok := text.get(v.Key)
		if !ok {
			if all, err = c.table.readDests(v.Key, 15, false); errors.Is(err, unix.ESRCH) {
				continue // removed meanwhile
			}
			if err != nil {
				return kernel.Counters{}, err
			}
		}
		kept = append(kept, v)
		slices.SortFunc(all, func(a, b dest) int { return a.Key.Addr.Compare(b.Key.Addr) })
		for _, d := range all {
			r.Reals = append(r.Reals, kernel.RealCounters{Key: d.Key, Weight: d.Weight, Active: d.Active, Inactive: d.Inactive})
		}
	}
	r.Virtuals = kept
	if r.Total, err = c.readTotal(); err != nil {
		return kernel.Counters{}, fmt.Errorf("reading totals: %w", err)
	}
	return r, nil
}

func (c *Counters) readTotal() (kernel.Traffic, error) {
	if _, err := c.total.Seek(0, io.SeekStart); err != nil {
		return kernel.Traffic{}, err
	}
	return parseTotal(c.total)
}

// dumpTraffic returns the traffic of all virtual servers, sorted.
func (t *Table) dumpTraffic() (all []kernel.VirtualCounters, err error) {
	if err := t.lookup(); err != nil {
		return nil, err
	}
	t.batch.Reset()
	t.batch.Begin(t.family, 0)
	t.batch.Genl(cmdGetService, familyVersion)
	t.batch.End()
	err = t.conn.Dump(&t.batch, func() { all = all[:0] }, func(payload []byte) error {
		s, err := decodeService(payload, t.names)
		if err != nil {
			return err
		}
		traffic, err := decodeTraffic(payload, attrService)
		all = append(all, kernel.VirtualCounters{Key: s.Key, Traffic: traffic})
		return err
	})
	slices.SortFunc(all, func(a, b kernel.VirtualCounters) int { return a.Key.Compare(b.Key) })
	// A dump goes by position. If the table changes meanwhile, it can return one twice.
	all = slices.CompactFunc(all, func(a, b kernel.VirtualCounters) bool { return a.Key == b.Key })
	return all, t.stale(err)
}

// decodeTraffic decodes the counters in an IPVS_CMD_NEW_SERVICE message, or with attrDest in an
// IPVS_CMD_NEW_DEST message, which uses the same numbers. Kernels before 4.1 have 64-bit counters
// for bytes only.
func decodeTraffic(payload []byte, of uint16) (kernel.Traffic, error) {
	a, err := nested(payload, of)
	if err != nil {
		return kernel.Traffic{}, err
	}
	var traffic kernel.Traffic
	wide := false
	for a.Next() {
		if typ := a.Type(); typ == svcStats64 || typ == svcStats && !wide {
			wide = typ == svcStats64
			if traffic, err = decodeStats(a.Nested()); err != nil {
				return kernel.Traffic{}, err
			}
		}
	}
	return traffic, a.Err()
}

// decodeStats decodes counters of either width and skips the rates.
func decodeStats(a nl.Attrs) (kernel.Traffic, error) {
	var traffic kernel.Traffic
	to := [...]*uint64{
		statsConns: &traffic.Conns, statsInPackets: &traffic.InPackets, statsOutPackets: &traffic.OutPackets,
		statsInBytes: &traffic.InBytes, statsOutBytes: &traffic.OutBytes,
	}
	for a.Next() {
		switch typ := int(a.Type()); {
		case typ == 0 || typ >= len(to):
		case len(a.Bytes()) == 4:
			*to[typ] = uint64(a.U32())
		default:
			*to[typ] = a.U64()
		}
	}
	return traffic, a.Err()
}

// parseTotal parses /proc/net/ip_vs_stats. Its third line has connections, packets in and out, and
// bytes in and out, in hexadecimal (ip_vs_stats_show).
func parseTotal(r io.Reader) (kernel.Traffic, error) {
	var t kernel.Traffic
	lines := bufio.NewScanner(r)
	for range 3 {
		if !lines.Scan() {
			return t, errors.Join(lines.Err(), fmt.Errorf("/proc/net/ip_vs_stats: %w", io.ErrUnexpectedEOF))
		}
	}
	fields := bytes.Fields(lines.Bytes())
	to := [...]*uint64{&t.Conns, &t.InPackets, &t.OutPackets, &t.InBytes, &t.OutBytes}
	if len(fields) != len(to) {
		return t, fmt.Errorf("/proc/net/ip_vs_stats: %d columns in %q, want %d", len(fields), lines.Bytes(), len(to))
	}
	for i, f := range fields {
		n, err := strconv.ParseUint(string(f), 16, 64)
		if err != nil {
			return kernel.Traffic{}, fmt.Errorf("/proc/net/ip_vs_stats: %q is not a hexadecimal number", f)
		}
		*to[i] = n
	}
	return t, nil
}
