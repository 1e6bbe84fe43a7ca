package host

import (
	"errors"
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/link"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Withdraw removes all announcements, of any table, and returns them. It reads and writes nothing else, so it works
// where the rest of the kernel cannot be used.
func Withdraw() (gone []kernel.Announcement, err error) {
	links, err := link.Open(new(nl.Dialer))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, links.Close()) }()
	_, all, err := links.ReadRoutes()
	if err != nil {
		return nil, fmt.Errorf("reading routes: %w", err)
	}
	ops := make([]kernel.Op, len(all))
	for i, a := range all {
		ops[i] = kernel.Op{Verb: kernel.Remove, Object: a, Was: a}
	}
	var failed []error
	for i, err := range links.Apply(ops) {
		if err != nil {
			failed = append(failed, fmt.Errorf("withdrawing %s: %w", all[i].Addr, err))
			continue
		}
		gone = append(gone, all[i])
	}
	return gone, errors.Join(failed...)
}
