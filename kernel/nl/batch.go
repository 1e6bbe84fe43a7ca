package nl

import (
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Batch is a sequence of netlink messages in one buffer, which Reset keeps. The zero value is an
// empty batch. To add a message, call Begin, add its header and attributes, and call End.
//
// Building a message returns no errors. The batch keeps the first one, such as an attribute that is
// too long for its 16-bit length. The Conn that should send the batch sends nothing and returns
// that error.
type Batch struct {
	buf    []byte
	starts []int // offset of each message, including an open one
	open   bool
	err    error
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.buf, b.starts, b.open, b.err = b.buf[:0], b.starts[:0], false, nil
}

// Grow makes room for n more bytes, so that a long batch is not copied while it is built.
func (b *Batch) Grow(n int) { b.buf = slices.Grow(b.buf, n) }

// Len returns the number of finished messages.
func (b *Batch) Len() int {
	if b.open {
		return len(b.starts) - 1
	}
	return len(b.starts)
}

// Size returns the length of all messages in bytes, including an open one.
func (b *Batch) Size() int { return len(b.buf) }

// Err returns the first error made while building, or nil.
func (b *Batch) Err() error { return b.err }

// Begin opens a message. It adds NLM_F_REQUEST to flags. The Conn sets NLM_F_ACK and the sequence
// number.
func (b *Batch) Begin(typ, flags uint16) {
	if b.open {
		b.fail("message %d was not ended", len(b.starts)-1)
	}
	b.open = true
	b.starts = append(b.starts, len(b.buf))
	var head [unix.SizeofNlMsghdr]byte // length, sequence number and port id are set later
	binary.NativeEndian.PutUint16(head[4:], typ)
	binary.NativeEndian.PutUint16(head[6:], flags&^unix.NLM_F_ACK|unix.NLM_F_REQUEST)
	b.buf = append(b.buf, head[:]...)
}

// End closes the open message and returns its index, counted from 0 since the last Reset.
func (b *Batch) End() int {
	i := len(b.starts) - 1
	if !b.open {
		b.fail("message %d was ended twice", i)
		return i
	}
	b.open = false
	start := b.starts[i]
	binary.NativeEndian.PutUint32(b.buf[start:], uint32(len(b.buf)-start))
	return i
}

// Raw appends bytes and pads them to a multiple of four. It is for a protocol's own header.
func (b *Batch) Raw(p []byte) {
	b.buf = append(b.buf, p...)
	b.pad()
}

// Genl appends a generic netlink header (struct genlmsghdr).
func (b *Batch) Genl(command, version uint8) {
	b.buf = append(b.buf, command, version, 0, 0)
}

// Nfgen appends a netfilter netlink header (struct nfgenmsg) with resource id 0.
func (b *Batch) Nfgen(family uint8) {
	b.buf = append(b.buf, family, unix.NFNETLINK_V0, 0, 0)
}

// Attr appends an attribute with the value p. typ may include NLA_F_NET_BYTEORDER.
func (b *Batch) Attr(typ uint16, p []byte) {
	b.head(typ, len(p))
	b.buf = append(b.buf, p...)
	b.pad()
}

// U8 appends an 8-bit attribute.
func (b *Batch) U8(typ uint16, v uint8) {
	b.fixed(typ, 1)[4] = v
}

// U16 appends a 16-bit attribute in the machine's byte order.
func (b *Batch) U16(typ uint16, v uint16) {
	binary.NativeEndian.PutUint16(b.fixed(typ, 2)[4:], v)
}

// U16BE appends a 16-bit attribute in network byte order.
func (b *Batch) U16BE(typ uint16, v uint16) {
	binary.BigEndian.PutUint16(b.fixed(typ, 2)[4:], v)
}

// U32 appends a 32-bit attribute in the machine's byte order.
func (b *Batch) U32(typ uint16, v uint32) {
	binary.NativeEndian.PutUint32(b.fixed(typ, 4)[4:], v)
}

// U32BE appends a 32-bit attribute in network byte order.
func (b *Batch) U32BE(typ uint16, v uint32) {
	binary.BigEndian.PutUint32(b.fixed(typ, 4)[4:], v)
}

// U64 appends a 64-bit attribute in the machine's byte order.
func (b *Batch) U64(typ uint16, v uint64) {
	b.head(typ, 8)
	b.buf = binary.NativeEndian.AppendUint64(b.buf, v)
}

// U64BE appends a 64-bit attribute in network byte order.
func (b *Batch) U64BE(typ uint16, v uint64) {
	b.head(typ, 8)
	b.buf = binary.BigEndian.AppendUint64(b.buf, v)
}

// Bytes16 appends an attribute of 16 bytes, such as an IPv6 address. It is faster than Attr.
func (b *Batch) Bytes16(typ uint16, v [16]byte) {
	b.buf = append(b.buf, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	p := (*[20]byte)(b.buf[len(b.buf)-20:])
	binary.NativeEndian.PutUint16(p[:], uint16(len(p)))
	binary.NativeEndian.PutUint16(p[2:], typ)
	*(*[16]byte)(p[4:]) = v
}

// Text appends a string attribute with its terminating NUL.
func (b *Batch) Text(typ uint16, s string) {
	b.head(typ, len(s)+1)
	b.buf = append(b.buf, s...)
	b.buf = append(b.buf, 0)
	b.pad()
}

// Flag appends an attribute without a value.
func (b *Batch) Flag(typ uint16) { b.head(typ, 0) }

// Nest opens a nested attribute, with NLA_F_NESTED. Give its result to EndNest.
func (b *Batch) Nest(typ uint16) (mark int) {
	mark = len(b.buf)
	b.buf = append(b.buf, 0, 0, 0, 0) // EndNest sets the length
	binary.NativeEndian.PutUint16(b.buf[mark+2:], typ|unix.NLA_F_NESTED)
	return mark
}

// EndNest closes the nested attribute that Nest opened.
func (b *Batch) EndNest(mark int) {
	n := len(b.buf) - mark
	if n > maxAttr {
		b.fail("nested attribute of %d bytes: the longest is %d", n, maxAttr)
		return
	}
	binary.NativeEndian.PutUint16(b.buf[mark:], uint16(n))
}

// maxAttr is the longest attribute in bytes that a 16-bit length can express, including its header
// (struct nlattr).
const maxAttr = 1<<16 - 1

// fixed appends an attribute with n zero bytes, at most 4, and returns the 8 bytes of header and
// value. Each message has about a dozen of these.
func (b *Batch) fixed(typ uint16, n uint16) *[8]byte {
	b.buf = append(b.buf, 0, 0, 0, 0, 0, 0, 0, 0)
	p := (*[8]byte)(b.buf[len(b.buf)-8:])
	binary.NativeEndian.PutUint16(p[:], unix.SizeofNlAttr+n)
	binary.NativeEndian.PutUint16(p[2:], typ)
	return p
}

func (b *Batch) head(typ uint16, n int) {
	n += unix.SizeofNlAttr
	if n > maxAttr {
		b.fail("attribute %d of %d bytes: the longest is %d", typ, n, maxAttr)
	}
	b.buf = append(b.buf, 0, 0, 0, 0)
	p := (*[4]byte)(b.buf[len(b.buf)-4:])
	binary.NativeEndian.PutUint16(p[:], uint16(n))
	binary.NativeEndian.PutUint16(p[2:], typ)
}

func (b *Batch) pad() {
	if n := align(len(b.buf)) - len(b.buf); n > 0 {
		b.buf = append(b.buf, make([]byte, n)...)
	}
}

func (b *Batch) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("netlink batch: "+format, args...)
	}
}

// span returns the bytes of messages i to j-1.
func (b *Batch) span(i, j int) []byte {
	if j == len(b.starts) {
		return b.buf[b.starts[i]:]
	}
	return b.buf[b.starts[i]:b.starts[j]]
}

// ready returns why the batch may not be sent, or nil.
func (b *Batch) ready() error {
	if b.open {
		b.fail("message %d was not ended", len(b.starts)-1)
	}
	return b.err
}

// stamp sets the sequence number of message i, and with ack makes it ask for an acknowledgement.
func (b *Batch) stamp(i int, seq uint32, ack bool, extra uint16) {
	h := b.buf[b.starts[i]:]
	flags := binary.NativeEndian.Uint16(h[6:])&^unix.NLM_F_ACK | extra
	if ack {
		flags |= unix.NLM_F_ACK
	}
	binary.NativeEndian.PutUint16(h[6:], flags)
	binary.NativeEndian.PutUint32(h[8:], seq)
}
