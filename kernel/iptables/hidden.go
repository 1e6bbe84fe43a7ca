package iptables

import (
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// hiddenTable is a table that iptables-save cannot show.
type hiddenTable struct {
	kernel.Family
	name string
}

// hides reports whether iptables-save printed a table as a comment alone. iptables-nft does so, without an error, if any rule
// in the table is one that iptables cannot express, for example after nft add rule ip filter INPUT ct state established accept.
// iptables-restore still writes to such a table. Taken for an empty one, it would get our jumps once more in each sync.
func hides(saved, table string) bool {
	return strings.Contains(saved, "# Table `"+table+"' is incompatible") && !strings.Contains(saved, "\n*"+table+"\n")
}

// wrote returns the chains of a table as Apply left them, or as they were in the last Read before the table was hidden.
func (f *family) wrote(table string, names kernel.Names) (chains []kernel.Chain) {
	if f.lastName != names {
		return nil
	}
	for _, c := range f.last {
		if c.Table == table {
			chains = append(chains, c)
		}
	}
	return chains
}

// follow carries the ops that succeeded out on what is known of hidden tables.
func (f *family) follow(ops []kernel.Op, errs []error) {
	var done []kernel.Op
	for i, op := range ops {
		if c := chainOf(op); errs[i] == nil && c.Family == f.Family && slices.Contains(f.hidden, c.Table) {
			done = append(done, op)
		}
	}
	if done != nil {
		s := kernel.State{Chains: f.last}
		kernel.Rows[kernel.KindChain].Objects.Follow(&s, done)
		f.last = s.Chains
	}
}
