package lab

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// ErrSilence is how Try ends when nothing at all comes back.
var ErrSilence = errors.New("no answer of any kind")

// Try connects from an address of the namespace, or from any if it is zero, and
// closes. It is for connections that should be dropped.
func (ns *Namespace) Try(from netip.Addr, to netip.AddrPort, limit time.Duration) error {
	c, err := ns.dial(context.Background(), limit, "tcp", from, to)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return ErrSilence
	}
	if err != nil {
		return err
	}
	return c.Close()
}

// AskWithin asks once from an address of the namespace, or from any if it is zero. It ends with ErrSilence if nothing
// comes back in time.
func (ns *Namespace) AskWithin(network string, from netip.Addr, to netip.AddrPort, limit time.Duration) (a Answer, err error) {
	c, err := ns.dial(context.Background(), limit, network, from, to)
	if err == nil {
		defer c.Close()
		a, err = (&Conn{c, bufio.NewReader(c)}).askWithin(limit)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return a, ErrSilence
	}
	return a, err
}
