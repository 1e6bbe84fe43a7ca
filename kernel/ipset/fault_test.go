package ipset

import (
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

var errDead = errors.New("the transport died")

// mortal is a transport that dies: Send fails after lives sends. With deaf the answer is lost
// instead.
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
			lives = 1000 // the next call opens another transport
			_, got, err := s.Read(kernel.DefaultNames)
			if want := done; err != nil || !deaf && got.Len() != want || deaf && got.Len() != want+unknown {
				t.Errorf("read %d entries and %v, with %d done and %d unknown", got.Len(), err, done, unknown)
			}
			apply(t, s, ops)
			if _, got, err = s.Read(kernel.DefaultNames); err != nil || got.Len() != n {
				t.Errorf("read %d entries and %v after applying again", got.Len(), err)
			}
		})
	}
}

// A set must not be swapped in if it is unknown whether it was filled.
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

// scripted answers each request with the next of its errnos. 0 is an acknowledgement.
type scripted struct {
	nl.Transport
	answers *[]unix.Errno
	seq     *[4]byte
}

func (s scripted) Send(p []byte) error { copy(s.seq[:], p[8:]); return nil }

func (s scripted) Receive(p []byte) (int, error) {
	const size = unix.SizeofNlMsghdr + unix.SizeofNlMsgerr
	clear(p[:size])
	binary.NativeEndian.PutUint32(p, size)
	binary.NativeEndian.PutUint16(p[4:], unix.NLMSG_ERROR)
	copy(p[8:], s.seq[:])
	binary.NativeEndian.PutUint32(p[unix.SizeofNlMsghdr:], -uint32((*s.answers)[0]))
	binary.NativeEndian.PutUint32(p[unix.SizeofNlMsghdr+4:], unix.SizeofNlMsghdr) // the header of the request
	*s.answers = (*s.answers)[1:]
	return size, nil
}

func TestKernelWithoutIPSet(t *testing.T) {
	for want, answers := range map[string][]unix.Errno{
		"modprobe ip_set":                {unix.EINVAL},
		"modprobe ip_set_hash_ip":        {0, errFindType},
		"modprobe ip_set_bitmap_port":    {0, 0, 0, 0, 0, errFindType},
		"modprobe ip_set_hash_ipportnet": {0, 0, 0, 0, errFindType},
	} {
		s, err := Open(&nl.Dialer{Wrap: func(_ int, tr nl.Transport) nl.Transport {
			return scripted{tr, &answers, new([4]byte)}
		}})
		if err != nil {
			t.Fatal(err)
		}
		var m *kernel.MissingError
		if err := s.Available(); !errors.As(err, &m) || m.Hint != want {
			t.Errorf("%v, want the hint %q", err, want)
		}
		s.Close()
	}
}
