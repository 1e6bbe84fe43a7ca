package iptables

import (
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// hides reports whether iptables-save printed a table as a comment alone. iptables-nft does so, without an
// error, if any rule in the table is one that iptables cannot express, for example after nft add rule ip
// filter INPUT ct state established accept. iptables-restore still writes to such a table. Taken for an empty
// one, it would get our jumps once more in each sync.
func hides(saved, table string) bool {
	return strings.Contains(saved, "# Table `"+table+"' is incompatible") && !strings.Contains(saved, "\n*"+table+"\n")
}

// wrote returns the chains of a table as the last Read and each Apply since left them.
func (f *family) wrote(table string, names kernel.Names) (chains []kernel.Chain) {
	if f.lastName != names {
		return nil
	}
	s := kernel.State{Chains: f.last}
	kernel.Rows[kernel.KindChain].Objects.Follow(&s, f.applied)
	for _, c := range s.Chains {
		if c.Table == table {
			chains = append(chains, c)
		}
	}
	return chains
}

// note keeps the ops that succeeded, until the next Read.
func (f *family) note(ops []kernel.Op, errs []error) {
	for i, op := range ops {
		if errs[i] == nil && chainOf(op).Family == f.Family {
			f.applied = append(f.applied, op)
		}
	}
}
