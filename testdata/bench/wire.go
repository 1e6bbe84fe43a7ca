package main

import (
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// A recording is the datagrams of a load in their order.
type recording []datagram

type datagram struct {
	part   string
	family int // of the socket
	bytes  []byte
}

// wire stands between svcproxy and its sockets.
type wire struct {
	inside    time.Duration // spent in their system calls
	recording *recording    // nil when nothing is recorded
	part      string        // of the load that is going on
}

func newWire() *wire { return new(wire) }

func (w *wire) dialer() *nl.Dialer {
	return &nl.Dialer{Wrap: func(family int, t nl.Transport) nl.Transport { return &tap{t, w, family} }}
}

type tap struct {
	nl.Transport
	wire   *wire
	family int
}

func (t *tap) Send(b []byte) error {
	if r := t.wire.recording; r != nil {
		*r = append(*r, datagram{t.wire.part, t.family, slices.Clone(b)})
	}
	start := time.Now()
	defer func() { t.wire.inside += time.Since(start) }()
	return t.Transport.Send(b)
}

func (t *tap) Receive(b []byte) (int, error) {
	start := time.Now()
	defer func() { t.wire.inside += time.Since(start) }()
	return t.Transport.Receive(b)
}
