package nl

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// OwnNamespace is kerneltest.NewNamespace. It is a variable because that package imports this one.
var OwnNamespace func(testing.TB)

// address appends an RTM_NEWADDR for 127.1.hi.lo/32 on lo, which has index 1 in every namespace.
func address(b *Batch, hi, lo byte) {
	b.Begin(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	b.Raw([]byte{unix.AF_INET, 32, 0, 0, 1, 0, 0, 0}) // struct ifaddrmsg
	b.Attr(unix.IFA_LOCAL, []byte{127, 1, hi, lo})
	b.End()
}

func addresses(n int) *Batch {
	var b Batch
	for i := range n {
		address(&b, byte(i>>8), byte(i))
	}
	return &b
}

// dump returns the addresses of lo without its own, 127.0.0.1.
func dump(t *testing.T, c *Conn) (all []uint32) {
	t.Helper()
	var b Batch
	b.Begin(unix.RTM_GETADDR, 0)
	b.Raw([]byte{unix.AF_INET, 0, 0, 0, 1, 0, 0, 0})
	b.End()
	err := c.Dump(&b, func() { all = all[:0] }, func(p []byte) error {
		a := ParseAttrs(p[unix.SizeofIfAddrmsg:])
		for a.Next() {
			if a.Type() == unix.IFA_LOCAL && a.U32BE() != 127<<24|1 {
				all = append(all, a.U32BE())
			}
		}
		return a.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestKernelBatch(t *testing.T) {
	OwnNamespace(t)
	c, err := (&Dialer{}).Dial(unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	if err := c.Send(addresses(100)); err != nil {
		t.Fatal(err)
	}
	if got, want := c.Stats(), (Stats{Sends: 1, Receives: 1, Messages: 100}); got != want {
		t.Errorf("a small batch: %+v, want %+v", got, want)
	}

	// The first 100 exist already. The rest must still be added, and the last message of the first
	// send is among those that fail.
	err = c.Send(addresses(600))
	var be *BatchError
	if !errors.As(err, &be) || len(be.Messages) != 100 || be.Messages[99].Index != 99 {
		t.Fatalf("adding 100 of 600 again: %v", err)
	}
	for _, m := range be.Messages {
		if !errors.Is(m.Err, unix.EEXIST) {
			t.Errorf("%v, want %v", &m, unix.EEXIST)
		}
	}
	if got := len(dump(t, c)); got != 600 {
		t.Errorf("%d addresses, want 600", got)
	}
	if err := c.Send(addresses(MaxMessages)); err == nil || c.Stats().Sends != 6 {
		t.Errorf("one full send of refused messages: %v, %d sends so far", err, c.Stats().Sends)
	}
}

func TestKernelErrorText(t *testing.T) {
	OwnNamespace(t)
	c, err := (*Dialer)(nil).Dial(unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var b Batch
	b.Begin(unix.RTM_GETLINK, 0)
	// A device type in a request is invalid, and strict checking says so in text.
	b.Raw([]byte{unix.AF_UNSPEC, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	b.End()
	err = c.Get(&b, func([]byte) error { return nil })
	var ke *KernelError
	if !errors.As(err, &ke) || ke.Errno != unix.EINVAL || ke.Text == "" {
		t.Errorf("a nonsensical header: %v, want %v with a text", err, unix.EINVAL)
	}
}

// tiny has room for a few replies only.
type tiny struct{ *socket }

func TestKernelOverflow(t *testing.T) {
	OwnNamespace(t)
	small := true
	d := &Dialer{Wrap: func(_ int, t Transport) Transport {
		s := t.(*socket)
		if small {
			unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1)
			small = false
		}
		return tiny{s}
	}}
	c, err := d.Dial(unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := addresses(200)
	if err := c.Send(b); err != nil {
		t.Fatalf("without refusals one reply must fit: %v", err)
	}
	address(b, 200, 1)
	if err := c.Send(b); !errors.Is(err, ErrUnknown) || !errors.Is(err, unix.ENOBUFS) {
		t.Fatalf("200 refusals in a tiny buffer: %v, want outcome unknown", err)
	}
	if got := dump(t, c); len(got) != 201 || !slices.Contains(got, binary.BigEndian.Uint32([]byte{127, 1, 200, 1})) {
		t.Errorf("%d addresses, want 201: the kernel goes on past lost replies", len(got))
	}
}

func TestKernelFamily(t *testing.T) {
	if id, err := Family("nlctrl"); err != nil || id != unix.GENL_ID_CTRL {
		t.Errorf("nlctrl: %d and %v, want %d", id, err, unix.GENL_ID_CTRL)
	}
	if id, err := Family("no-such-thing"); !errors.Is(err, ErrNoFamily) || id != 0 {
		t.Errorf("a missing family: %d and %v, want %v", id, err, ErrNoFamily)
	}
}
