package ipset

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

var errDead = errors.New("the transport died")

// mortal is a transport that dies: Send fails once lives have been used up, or,
// with deaf, the answer is lost instead.
type mortal struct {
	nl.Transport
	lives *int
	deaf  bool
}

func (m mortal) Send(p []byte) error {
	*m.lives--
	if *m.lives < 0 && !m.deaf {
		return errDead
	}
	return m.Transport.Send(p)
}

func (m mortal) Receive(p []byte) (int, error) {
	if *m.lives < 0 && m.deaf {
		return 0, errDead
	}
	return m.Transport.Receive(p)
}

func TestLostAnswers(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(map[bool]string{false: "send fails", true: "answer is lost"}[deaf], func(t *testing.T) {
			lives := 1000
			s := open(t, &nl.Dialer{Wrap: func(_ int, tr nl.Transport) nl.Transport { return mortal{tr, &lives, deaf} }})
			apply(t, s, []kernel.Op{{Object: kernel.Set{Name: "KUBE-CLUSTER-IP", Type: kernel.HashIPPort, Family: kernel.IPv4, MaxElem: 8192}}})
			const n = 4000
			ops := entries("KUBE-CLUSTER-IP", n)
			lives = 1
			done, unknown, unsent := 0, 0, 0
			for _, err := range s.Apply(ops) {
				switch {
				case err == nil:
					done++
				case errors.Is(err, kernel.ErrUnknownOutcome):
					unknown++
				case errors.Is(err, nl.ErrUnsent):
					unsent++
				default:
					t.Fatal(err)
				}
			}
			if done == 0 || unknown == 0 || unsent == 0 || done+unknown+unsent != n {
				t.Errorf("%d done, %d unknown, %d unsent", done, unknown, unsent)
			}
			lives = 1000 // the next call opens another
			_, got, err := s.Read(kernel.DefaultNames)
			if want := done; err != nil || !deaf && len(got) != want || deaf && len(got) != want+unknown {
				t.Errorf("read %d entries and %v, with %d done and %d unknown", len(got), err, done, unknown)
			}
			apply(t, s, ops)
			if _, got, err = s.Read(kernel.DefaultNames); err != nil || len(got) != n {
				t.Errorf("read %d entries and %v after applying again", len(got), err)
			}
		})
	}
}

// A set of which it is not known whether it was filled must not be swapped in.
func TestUnknownFillIsNotSwapped(t *testing.T) {
	lives := 1000
	s := open(t, &nl.Dialer{Wrap: func(_ int, tr nl.Transport) nl.Transport { return mortal{tr, &lives, true} }})
	apply(t, s, plan(t, `
		+ create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 4
		+ create KUBE-TMP-0 hash:ip,port family inet maxelem 8`))
	lives = 0
	errs := s.Apply(plan(t, `
		+ add KUBE-TMP-0 10.0.0.1,tcp:80
		~ swap KUBE-TMP-0 KUBE-CLUSTER-IP`))
	if !errors.Is(errs[0], kernel.ErrUnknownOutcome) || !errors.Is(errs[1], ErrNotSwapped) {
		t.Errorf("errors %v", errs)
	}
}

// refusing answers every request as a kernel without the subsystem does.
type refusing struct {
	nl.Transport
	errno unix.Errno
	seq   *[4]byte
}

func (r refusing) Send(p []byte) error { copy(r.seq[:], p[8:]); return nil }
func (r refusing) Receive(p []byte) (int, error) {
	var b [36]byte
	b[0], b[4] = 36, unix.NLMSG_ERROR
	copy(b[8:], r.seq[:])
	code := -int32(r.errno)
	b[16], b[17], b[18], b[19] = byte(code), byte(code>>8), byte(code>>16), byte(code>>24)
	b[20] = 16
	return copy(p, b[:]), nil
}

func TestKernelWithoutIPSet(t *testing.T) {
	for errno, want := range map[unix.Errno]string{unix.EINVAL: "modprobe ip_set", errFindType: "modprobe ip_set_hash_ip"} {
		d := &nl.Dialer{Wrap: func(_ int, tr nl.Transport) nl.Transport {
			seen := 0
			return firstPasses{tr, refusing{tr, errno, new([4]byte)}, &seen, errno == errFindType}
		}}
		s, err := Open(d)
		if err != nil {
			t.Fatal(err)
		}
		var m *kernel.MissingError
		if err := s.Available(); !errors.As(err, &m) || m.Hint != want {
			t.Errorf("errno %d: %v, want the hint %q", errno, err, want)
		}
		s.Close()
	}
}

// firstPasses answers the first request itself, and kindly, if pass says so.
type firstPasses struct {
	nl.Transport
	refusing refusing
	seen     *int
	pass     bool
}

func (f firstPasses) Send(p []byte) error { *f.seen++; return f.refusing.Send(p) }
func (f firstPasses) Receive(p []byte) (int, error) {
	r := f.refusing
	if f.pass && *f.seen == 1 {
		r.errno = 0
	}
	return r.Receive(p)
}
