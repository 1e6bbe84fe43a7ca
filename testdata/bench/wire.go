package main

import (
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// A recording is what a load sent, in the order and the stretches of its plan.
type recording []stretch

// A stretch is what a run of ops of one part sent; nothing, if they are made by other
// means than netlink.
type stretch struct {
	part string
	sent []datagram
}

type datagram struct {
	family int // of the socket
	bytes  []byte
}

// wire stands between svcproxy and its sockets.
type wire struct {
	inside time.Duration // spent in their system calls
	tape   *[]datagram   // nil when nothing is recorded
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
	if tape := t.wire.tape; tape != nil {
		*tape = append(*tape, datagram{t.family, slices.Clone(b)})
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
