package nl

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// kernelSim answers as netlink_rcv_skb does: it handles messages in order, sends an error for each
// rejected one, and an acknowledgement to each that asks for it.
type kernelSim struct {
	refuse  map[uint32]unix.Errno // by the value of the message's only attribute
	seen    []uint32              // values handled
	sizes   []int                 // of the datagrams, in bytes
	queue   [][]byte
	dieAt   int   // the send after which nothing works, counted from 1; 0 for none
	lose    error // returned by the next receive instead of the queue
	foreign bool  // put replies with other sequence numbers among ours
	opened  int
	closed  int
}

var errDead = errors.New("transport died")

func (k *kernelSim) Send(p []byte) error {
	k.sizes = append(k.sizes, len(p))
	if k.dieAt != 0 && len(k.sizes) > k.dieAt {
		return errDead
	}
	for len(p) > 0 {
		var m message
		m, p, _ = cut(p)
		a := ParseAttrs(m.payload)
		a.Next()
		v := a.U32()
		k.seen = append(k.seen, v)
		errno := k.refuse[v]
		if k.foreign {
			k.queue = append(k.queue, reply(m.seq+100000, unix.EPERM, ""), reply(m.seq-1, 0, ""))
		}
		if errno != 0 || m.flags&unix.NLM_F_ACK != 0 {
			k.queue = append(k.queue, reply(m.seq, errno, "because"))
		}
	}
	return nil
}

func (k *kernelSim) Receive(buf []byte) (int, error) {
	if k.dieAt != 0 && len(k.sizes) >= k.dieAt {
		return 0, errDead
	}
	if err := k.lose; err != nil {
		k.lose, k.queue = nil, nil
		return 0, err
	}
	if len(k.queue) == 0 {
		return 0, ErrTimeout
	}
	n := copy(buf, k.queue[0])
	k.queue = k.queue[1:]
	return n, nil
}

func (k *kernelSim) Close() error { k.closed++; return nil }

func (k *kernelSim) conn() *Conn {
	return &Conn{dial: func() (Transport, error) {
		k.opened++
		return k, nil
	}}
}

// reply returns an NLMSG_ERROR as the kernel writes it with capped, extended acknowledgements.
func reply(seq uint32, errno unix.Errno, text string) []byte {
	var b Batch
	b.Begin(unix.NLMSG_ERROR, 0)
	b.Raw(binary.NativeEndian.AppendUint32(nil, uint32(-int32(errno))))
	b.Raw(make([]byte, unix.SizeofNlMsghdr))
	flags := uint16(unix.NLM_F_CAPPED)
	if errno != 0 && text != "" {
		b.Text(unix.NLMSGERR_ATTR_MSG, text)
		flags |= unix.NLM_F_ACK_TLVS
	}
	b.End()
	binary.NativeEndian.PutUint16(b.buf[6:], flags)
	binary.NativeEndian.PutUint32(b.buf[8:], seq)
	return b.buf
}

// numbered returns a batch of n messages that contain their index.
func numbered(n int) *Batch {
	var b Batch
	for i := range n {
		b.Begin(100, 0)
		b.U32(1, uint32(i))
		b.End()
	}
	return &b
}

func TestSmallBatchIsOneSendAndOneReceive(t *testing.T) {
	k := &kernelSim{}
	c := k.conn()
	if err := c.Send(numbered(10)); err != nil {
		t.Fatal(err)
	}
	if got, want := c.Stats(), (Stats{Sends: 1, Receives: 1, Messages: 10}); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
	if err := c.Send(&Batch{}); err != nil || len(k.sizes) != 1 {
		t.Errorf("an empty batch: error %v, %d sends", err, len(k.sizes)-1)
	}
}

func TestRefusalsAreMappedToMessages(t *testing.T) {
	k := &kernelSim{foreign: true, refuse: map[uint32]unix.Errno{0: unix.EEXIST, 3: unix.ENOENT, 499: unix.ESRCH}}
	c := k.conn()
	err := c.Send(numbered(500))
	var be *BatchError
	if !errors.As(err, &be) {
		t.Fatalf("error %v, want a *BatchError", err)
	}
	var got []int
	for _, m := range be.Messages {
		got = append(got, m.Index)
	}
	if want := []int{0, 3, 499}; !slices.Equal(got, want) {
		t.Fatalf("failed messages %v, want %v", got, want)
	}
	if !errors.Is(be.Messages[2].Err, unix.ESRCH) || errors.Is(err, ErrUnknown) {
		t.Errorf("errors are mixed up: %v", err)
	}
	if len(k.seen) != 500 {
		t.Errorf("%d messages handled, want all 500", len(k.seen))
	}
	want := "3 of 500 netlink messages failed, the first: message 0: file exists (because)"
	if err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
}

func TestSendIsCutAtMessagesAndBytes(t *testing.T) {
	k := &kernelSim{}
	c := k.conn()
	if err := c.Send(numbered(2*MaxMessages + 1)); err != nil {
		t.Fatal(err)
	}
	if len(k.sizes) != 3 {
		t.Errorf("%d sends for %d messages, want 3", len(k.sizes), 2*MaxMessages+1)
	}
	k.sizes = nil
	var b Batch
	for range 10 {
		b.Begin(100, 0)
		b.U32(1, 7)
		b.Attr(2, make([]byte, 30000))
		b.End()
	}
	b.Begin(100, 0)
	b.U32(1, 8)
	b.Attr(2, make([]byte, 65000))
	b.Attr(3, make([]byte, 65000))
	b.End()
	if err := c.Send(&b); err != nil {
		t.Fatal(err)
	}
	if len(k.sizes) != 6 || k.sizes[0] > MaxSend || k.sizes[5] < MaxSend {
		t.Errorf("sends of %v bytes, want five of two messages and one of the long one", k.sizes)
	}
}

func TestOverflowLeavesOneSendUnknown(t *testing.T) {
	k := &kernelSim{lose: unix.ENOBUFS}
	c := k.conn()
	err := c.Send(numbered(600))
	var be *BatchError
	if !errors.As(err, &be) || !errors.Is(err, ErrUnknown) || errors.Is(err, ErrUnsent) {
		t.Fatalf("error %v, want outcome unknown", err)
	}
	if n := len(be.Messages); n != MaxMessages || be.Messages[n-1].Index != MaxMessages-1 {
		t.Errorf("%d messages unknown, want the first %d", n, MaxMessages)
	}
	if len(k.seen) != 600 || k.opened != 2 || k.closed != 1 {
		t.Errorf("%d messages handled on %d sockets, want 600 on 2", len(k.seen), k.opened)
	}
}

func TestDeadTransport(t *testing.T) {
	k := &kernelSim{dieAt: 2}
	c := k.conn()
	var be *BatchError
	if err := c.Send(numbered(1000)); !errors.As(err, &be) {
		t.Fatalf("error %v, want a *BatchError", err)
	}
	for _, m := range be.Messages {
		want := ErrUnknown
		if m.Index >= 2*MaxMessages {
			want = ErrUnsent
		}
		if !errors.Is(m.Err, want) || !errors.Is(m.Err, errDead) {
			t.Fatalf("message %d: %v, want %v", m.Index, m.Err, want)
		}
	}
	if len(be.Messages) != 1000-MaxMessages {
		t.Errorf("%d messages failed, want %d", len(be.Messages), 1000-MaxMessages)
	}
	k.dieAt = 0
	if err := c.Send(numbered(1)); err != nil || k.opened != 2 {
		t.Errorf("after the failure: error %v, %d sockets opened", err, k.opened)
	}
}

func TestMalformedBatchIsNotSent(t *testing.T) {
	long := func(b *Batch) { b.Attr(1, make([]byte, 65532)); b.End() }
	nest := func(b *Batch) {
		m := b.Nest(1)
		b.Attr(1, make([]byte, 40000))
		b.Attr(1, make([]byte, 40000))
		b.EndNest(m)
		b.End()
	}
	for name, build := range map[string]func(*Batch){"open": func(*Batch) {}, "long": long, "nest": nest} {
		k := &kernelSim{}
		var b Batch
		b.Begin(1, 0)
		build(&b)
		if err := k.conn().Send(&b); err == nil || len(k.sizes) != 0 {
			t.Errorf("%s: error %v, %d sends", name, err, len(k.sizes))
		}
	}
}

func TestSendDoesNotAllocate(t *testing.T) {
	k := &kernelSim{}
	c := k.conn()
	b := numbered(100)
	ack := reply(0, 0, "")
	c.t = answer(func() []byte {
		binary.NativeEndian.PutUint32(ack[8:], c.seq)
		return ack
	})
	got := testing.AllocsPerRun(10, func() {
		b.Reset()
		for i := range 100 {
			b.Begin(100, 0)
			m := b.Nest(3)
			b.U32(1, uint32(i))
			b.Text(2, "rr")
			b.EndNest(m)
			b.End()
		}
		if err := c.Send(b); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations to build and send 100 messages", got)
	}
}

// answer is a transport whose every receive returns the result of the function.
type answer func() []byte

func (a answer) Send([]byte) error               { return nil }
func (a answer) Receive(buf []byte) (int, error) { return copy(buf, a()), nil }
func (a answer) Close() error                    { return nil }

// part returns a message of a dump with these flags.
func part(seq uint32, typ, flags uint16, payload ...byte) []byte {
	var b Batch
	b.Begin(typ, 0)
	b.Raw(payload)
	b.End()
	binary.NativeEndian.PutUint16(b.buf[6:], flags)
	binary.NativeEndian.PutUint32(b.buf[8:], seq)
	return b.buf
}

// dumper plays one list of datagrams for each request and fills in the sequence number.
type dumper struct {
	rounds [][][]byte
	seq    uint32
}

func (d *dumper) Send(p []byte) error {
	d.seq = binary.NativeEndian.Uint32(p[8:])
	return nil
}

func (d *dumper) Receive(buf []byte) (int, error) {
	p := d.rounds[0][0]
	if d.rounds[0] = d.rounds[0][1:]; len(d.rounds[0]) == 0 {
		d.rounds = d.rounds[1:]
	}
	n := copy(buf, p)
	for p := buf[:n]; len(p) > 0; p = p[align(int(binary.NativeEndian.Uint32(p))):] {
		if binary.NativeEndian.Uint32(p[8:]) == 0 {
			binary.NativeEndian.PutUint32(p[8:], d.seq)
		}
	}
	return n, nil
}

func (d *dumper) Close() error { return nil }

func TestDump(t *testing.T) {
	const multi, intr = unix.NLM_F_MULTI, unix.NLM_F_DUMP_INTR
	done := part(0, unix.NLMSG_DONE, multi, 0, 0, 0, 0)
	two := append(part(0, 20, multi, 'a'), part(0, 20, multi, 'b')...)
	torn := part(0, 20, multi|intr, 'x')
	busy := reply(0, unix.EBUSY, "")
	failed := part(0, unix.NLMSG_DONE, multi, binary.NativeEndian.AppendUint32(nil, ^uint32(unix.ENOMEM)+1)...)
	late := part(99, 20, multi, 'z')
	for _, tc := range []struct {
		name   string
		rounds [][][]byte
		want   string
		err    error
	}{
		{"parts", [][][]byte{{two, part(0, 20, multi, 'c'), done}}, "abc", nil},
		{"empty", [][][]byte{{done}}, "", nil},
		{"foreign", [][][]byte{{late, two, late, done}}, "ab", nil},
		{"interrupted once", [][][]byte{{torn, done}, {two, done}}, "ab", nil},
		{"busy once", [][][]byte{{busy}, {two, done}}, "ab", nil},
		{"interrupted always", [][][]byte{{torn, done}, {torn, done}, {torn, done}, {torn, done}, {torn, done}}, "x", ErrInterrupted},
		{"refused", [][][]byte{{reply(0, unix.ENOENT, "")}}, "", unix.ENOENT},
		{"ended by an error", [][][]byte{{two, failed}}, "ab", unix.ENOMEM},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &Conn{t: &dumper{rounds: tc.rounds}}
			var got []byte
			err := c.Dump(numbered(1), func() { got = got[:0] }, func(p []byte) error {
				got = append(got, p[0])
				return nil
			})
			if string(got) != tc.want || !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
				t.Errorf("got %q and %v, want %q and %v", got, err, tc.want, tc.err)
			}
		})
	}
}

func TestDumpIsDrainedPastTheReadersError(t *testing.T) {
	d := &dumper{rounds: [][][]byte{{part(0, 20, unix.NLM_F_MULTI, 'a'), part(0, 20, unix.NLM_F_MULTI, 'b'), part(0, unix.NLMSG_DONE, 0)}}}
	c := &Conn{t: d}
	calls := 0
	err := c.Dump(numbered(1), nil, func([]byte) error { calls++; return errDead })
	if err != errDead || calls != 1 || len(d.rounds) != 0 {
		t.Errorf("error %v, %d calls, %d datagrams left", err, calls, len(d.rounds))
	}
}

// Conns share buffers for answers, but none gets a buffer that another is reading.
func TestDumpInsideADump(t *testing.T) {
	answer := func(first, second byte) *Conn {
		return &Conn{t: &dumper{rounds: [][][]byte{{
			append(part(0, 20, unix.NLM_F_MULTI, first), part(0, 20, unix.NLM_F_MULTI, second)...),
			part(0, unix.NLMSG_DONE, 0),
		}}}}
	}
	outer, inner := answer('a', 'd'), answer('b', 'c')
	var got []byte
	err := outer.Dump(numbered(1), nil, func(p []byte) error {
		got = append(got, p[0])
		if len(got) > 1 {
			return nil
		}
		return inner.Dump(numbered(1), nil, func(p []byte) error {
			got = append(got, p[0])
			return nil
		})
	})
	if err != nil || string(got) != "abcd" {
		t.Errorf("got %q and %v, want abcd", got, err)
	}
}

func TestEchoOfARequest(t *testing.T) {
	request := part(5, 77, 0, 1, 2, 3, 4)
	p := append(binary.NativeEndian.AppendUint32(nil, ^uint32(4352)+1), request...)
	e, echo, err := message{payload: p}.refusal()
	if err != nil || e.Errno != 4352 || !slices.Equal(echo, request) {
		t.Errorf("refusal %v, echo %v, error %v", e, echo, err)
	}
}

func TestAttrsRoundTrip(t *testing.T) {
	var b Batch
	b.Begin(9, unix.NLM_F_ACK)
	b.Genl(3, 1)
	b.U8(1, 200)
	b.U16(2, 0x1234)
	b.U16BE(3, 0x1234)
	m := b.Nest(4)
	b.U32(5, 0x12345678)
	b.U32BE(6|unix.NLA_F_NET_BYTEORDER, 0x12345678)
	b.Text(7, "wrr")
	b.EndNest(m)
	b.U64(8, 1<<40)
	b.U64BE(9, 1<<40)
	b.Flag(10)
	b.Attr(11, []byte{1, 2, 3})
	if i := b.End(); i != 0 || b.Len() != 1 || b.Err() != nil {
		t.Fatalf("index %d, length %d, error %v", i, b.Len(), b.Err())
	}
	m0, rest, err := cut(b.buf)
	if err != nil || len(rest) != 0 || m0.flags != unix.NLM_F_REQUEST {
		t.Fatalf("message %+v, %d bytes left, error %v", m0, len(rest), err)
	}
	seen := 0
	check := func(ok bool, typ uint16) {
		t.Helper()
		if seen++; !ok {
			t.Errorf("attribute %d is not what was written", typ)
		}
	}
	a := ParseAttrs(m0.payload[unix.GENL_HDRLEN:])
	for a.Next() {
		switch a.Type() {
		case 1:
			check(a.U8() == 200, 1)
		case 2:
			check(a.U16() == 0x1234, 2)
		case 3:
			check(a.U16BE() == 0x1234, 3)
		case 4:
			n := a.Nested()
			check(n.Next() && n.U32() == 0x12345678, 5)
			check(n.Next() && n.Type() == 6 && n.U32BE() == 0x12345678, 6)
			check(n.Next() && n.Text() == "wrr" && !n.Next() && n.Err() == nil, 7)
		case 8:
			check(a.U64() == 1<<40, 8)
		case 9:
			check(a.U64BE() == 1<<40, 9)
		case 10:
			check(len(a.Bytes()) == 0, 10)
		case 11:
			check(slices.Equal(a.Bytes(), []byte{1, 2, 3}), 11)
		}
	}
	if a.Err() != nil || seen != 10 {
		t.Errorf("error %v after %d attributes", a.Err(), seen)
	}
}

// attr is an attribute of type 1 that says it has this length.
func attr(length uint16, value ...byte) []byte {
	return append(binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, length), 1), value...)
}

func TestAttrsAreStrict(t *testing.T) {
	for name, p := range map[string][]byte{
		"short":    attr(4)[:3],
		"too long": attr(9, 0, 0, 0, 0),
		"no head":  attr(3),
		"tail":     attr(4, 0),
	} {
		a := ParseAttrs(p)
		for a.Next() {
		}
		if a.Err() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	a := ParseAttrs(attr(6, 5, 5))
	if !a.Next() || a.U16() == 0 || a.Err() != nil {
		t.Errorf("an unpadded last attribute: %v", a.Err())
	}
	if a.U32() != 0 || a.Err() == nil || a.Next() {
		t.Error("a value of the wrong length was accepted")
	}
}

func FuzzAttrs(f *testing.F) {
	b := numbered(2)
	f.Add(b.buf)
	f.Add([]byte{8, 0, 1, 0x80, 4, 0, 2, 0})
	f.Fuzz(func(t *testing.T, p []byte) {
		total := 0
		a := ParseAttrs(p)
		for a.Next() {
			total += unix.SizeofNlAttr + len(a.Bytes())
			a.Text()
			for n := a.Nested(); n.Next(); {
				n.U32()
			}
		}
		if total > len(p) {
			t.Fatalf("%d bytes of attributes in %d", total, len(p))
		}
	})
}

// FuzzReceive takes any bytes as a reply: no panic, no endless loop.
func FuzzReceive(f *testing.F) {
	f.Add(reply(1, unix.EEXIST, "text"))
	f.Add(part(1, unix.NLMSG_DONE, unix.NLM_F_MULTI, 0, 0, 0, 0))
	f.Add(append(part(1, 20, unix.NLM_F_MULTI, 'a'), reply(2, 0, "")...))
	f.Fuzz(func(t *testing.T, p []byte) {
		played := false
		c := &Conn{dial: func() (Transport, error) {
			played = false
			return once{p, &played}, nil
		}}
		if err := c.Send(numbered(2)); err == nil && len(p) < unix.SizeofNlMsghdr {
			t.Fatal("an answer too short to be one was taken for success")
		}
		c.seq = 0
		c.Dump(numbered(1), nil, func([]byte) error { return nil })
	})
}

type once struct {
	p      []byte
	played *bool
}

func (o once) Send([]byte) error { return nil }
func (o once) Receive(buf []byte) (int, error) {
	if *o.played {
		return 0, ErrTimeout
	}
	*o.played = true
	return copy(buf, o.p), nil
}
func (o once) Close() error { return nil }
