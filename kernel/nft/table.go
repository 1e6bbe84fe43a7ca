// Package nft reads and writes sets, their entries and chains in nf_tables over netlink, without xtables and ipset,
// and without the program nft.
//
// The objects are those that packages ipset and iptables write, and rules have the words of iptables. All of a family
// are in one table, ip svcproxy or ip6 svcproxy: set KUBE-CLUSTER-IP has its name there, chain KUBE-SERVICES of table
// nat is nat-KUBE-SERVICES, and the kernel's chain OUTPUT of table filter is our base chain filter-OUTPUT.
//
// # Rules
//
// compile turns the words of a rule into expressions. A written rule keeps its words in its user data. A reading
// compiles these again: if the kernel's expressions are not the same, somebody changed the rule, and the reading has
// a rule that no state wants. So nothing has to be decoded.
//
// # Transactions
//
// The ops of one call of Apply take effect in up to three transactions, each of them together or not at all, and each
// link of a flowtable in one more: see steps.
//
// # What others see
//
// The program nft lists our tables, as text and as JSON, and reads them from that text: 1.0.2, 1.0.6 and 1.1.3 do. So
// keys have its data types, and are loaded as it would. After a reload the rules have lost their words, and are written
// once more. Text is its grammar for an op.
//
// # Limits
//
// What refuses clients, kernel.LimitsTable, is in a table of its own, ip svcproxy-limits: OpenLimits. There every rule
// but one with target VMAP has a counter in front of its target, or at its end. No comparison heeds its value. Entries
// of meters are made by packets, and are not read.
package nft

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Table is our tables of both families in one network namespace. One goroutine at a time may use it, but any may call
// Stats.
type Table struct {
	conn   *nl.Conn
	names  kernel.Names
	table  string
	limits bool // it is the table of limits
	batch  nl.Batch

	// last is what the kernel had at generation id: sets and chains if heads is set, entries if full is. Those of
	// verified were the same then.
	last        reading
	heads, full bool
	verified    map[string]kernel.Entries // by set
	id          uint32
	count       int // of entries in the last list of all

	ended *ended // counts of removed slots and rules
}

// Open opens the tables in the network namespace of the calling thread. If the kernel lacks nf_tables, the error is a
// *kernel.MissingError.
func Open(d *nl.Dialer, n kernel.Names) (*Table, error) {
	return openTable(d, &Table{names: n, table: n.Table(), ended: &ended{names: n}})
}

// OpenLimits opens the tables of limits, of which the same holds. r gets what removed rules counted.
func OpenLimits(d *nl.Dialer, n kernel.Names, r *Refusals) (*Table, error) {
	return openTable(d, &Table{names: n, table: n.LimitsTable(), limits: true, ended: &r.ended})
}

func openTable(d *nl.Dialer, t *Table) (*Table, error) {
	c, err := d.Dial(unix.NETLINK_NETFILTER)
	if err != nil && !errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, fmt.Errorf("opening nftables: %w", err)
	}
	t.conn = c
	if err == nil {
		_, err = t.generation()
	}
	if err == nil {
		return t, nil
	}
	if c != nil {
		c.Close()
	}
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, kernel.ErrNoNFTables
	}
	return nil, fmt.Errorf("opening nftables: %w", err)
}

// Close releases the socket.
func (t *Table) Close() error { return t.conn.Close() }

// Stats counts system calls and messages.
func (t *Table) Stats() nl.Stats { return t.conn.Stats() }

// generation returns the number of the rules' last change by any program.
func (t *Table) generation() (id uint32, err error) {
	b := t.ask(unix.NFT_MSG_GETGEN, unix.AF_UNSPEC)
	b.End()
	err = t.conn.Get(b, func(p []byte) error {
		a, err := payload(p)
		for err == nil && a.Next() {
			if a.Type() == unix.NFTA_GEN_ID {
				id = a.U32BE()
			}
		}
		return errors.Join(err, a.Err())
	})
	return id, err
}

// Families returns those in which something of ours is in our table. A table of that name without any of our sets and
// chains is another program's.
func (t *Table) Families() (found []kernel.Family, err error) {
	for _, f := range families {
		there, err := t.present(f)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		ops, err := t.removal(f)
		if err != nil {
			return nil, err
		}
		if len(ops) > 0 {
			found = append(found, f)
		}
	}
	return found, nil
}

func (t *Table) present(f kernel.Family) (bool, error) { return t.Has(f, t.table) }

// Has reports whether a table is there.
func (t *Table) Has(f kernel.Family, name string) (bool, error) {
	b := t.ask(unix.NFT_MSG_GETTABLE, uint8(f))
	b.Text(unix.NFTA_TABLE_NAME, name)
	b.End()
	err := t.conn.Get(b, func([]byte) error { return nil })
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for table %s of nftables: %w", name, err)
	}
	return true, nil
}

// Remove removes our sets and chains of a family, and their table unless another program has something in it.
func (t *Table) Remove(f kernel.Family) error {
	ops, err := t.removal(f)
	if err != nil {
		return err
	}
	for _, err := range t.Apply(ops) {
		if err != nil && !errors.Is(err, kernel.ErrNotDone) {
			return fmt.Errorf("removing what is ours from table %s %s of nftables: %w", ip(f), t.table, err)
		}
	}
	return nil
}

// RemoveWhole removes a table of any name with all that is in it.
func (t *Table) RemoveWhole(f kernel.Family, name string) error {
	t.forget()
	b := new(nl.Batch)
	limit(b, unix.NFNL_MSG_BATCH_BEGIN)
	begin(b, unix.NFT_MSG_DELTABLE, 0, f)
	b.Text(unix.NFTA_TABLE_NAME, name)
	b.End()
	limit(b, unix.NFNL_MSG_BATCH_END)
	if err := t.conn.Commit(b, nil); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing table %s %s of nftables: %w", ip(f), name, err)
	}
	return nil
}

// removal returns the ops that remove all that is ours in a family.
func (t *Table) removal(f kernel.Family) (ops []kernel.Op, err error) {
	sets, _, err := t.ReadSets()
	if err != nil {
		return nil, err
	}
	chains, err := t.ReadChains()
	if err != nil {
		return nil, err
	}
	flowtables, err := t.ReadFlowtables()
	if err != nil {
		return nil, err
	}
	for _, x := range flowtables {
		if x.Family == f {
			ops = append(ops, kernel.Op{Verb: kernel.Remove, Object: x, Was: x})
		}
	}
	for _, s := range sets {
		if s.Family == f {
			ops = append(ops, kernel.Op{Verb: kernel.Remove, Object: s, Was: s})
		}
	}
	for _, c := range chains {
		if c.Family == f {
			ops = append(ops, kernel.Op{Verb: kernel.Remove, Object: c, Was: c})
		}
	}
	return ops, nil
}

var families = [...]kernel.Family{kernel.IPv4, kernel.IPv6}
