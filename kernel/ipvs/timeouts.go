package ipvs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Timeouts reads how long silent connections are kept: one system call, where
// netlink would take three.
func (t *Table) Timeouts() (kernel.Timeouts, error) {
	timeouts, err := t.opt.timeouts()
	if err != nil {
		return kernel.Timeouts{}, fmt.Errorf("reading timeouts: %w", t.unloaded(err))
	}
	return timeouts, nil
}

// SetTimeouts sets those timeouts that are not 0. They are of this network
// namespace and count for a connection from its next packet on
// (ip_vs_set_timeout, set_tcp_state).
func (t *Table) SetTimeouts(to kernel.Timeouts) error {
	if err := t.lookup(); err != nil {
		return err
	}
	b := &t.batch
	b.Reset()
	putTimeouts(b, t.family, to)
	err := t.conn.Send(b)
	var refused *nl.KernelError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nl.ErrUnknown):
		return fmt.Errorf("%w (%w)", kernel.ErrUnknownOutcome, err)
	case errors.As(err, &refused) && refused.Errno == unix.EINVAL:
		return fmt.Errorf("the longest timeout is 2147483647 of the kernel's ticks: 24 days at 1000 a second (%w)", err)
	}
	return t.stale(err)
}

// putTimeouts appends a message that sets timeouts. The kernel leaves alone what
// the message does not have (ip_vs_genl_set_config).
func putTimeouts(b *nl.Batch, family uint16, to kernel.Timeouts) {
	b.Begin(family, 0)
	b.Genl(cmdSetConfig, familyVersion)
	for _, a := range [...]struct {
		typ     uint16
		seconds uint32
	}{{attrTimeoutTCP, to.TCP}, {attrTimeoutTCPFin, to.TCPFin}, {attrTimeoutUDP, to.UDP}} {
		if a.seconds != 0 {
			b.U32(a.typ, a.seconds)
		}
	}
	b.End()
}
