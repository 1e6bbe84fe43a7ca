package ipvs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// script is a transport that answers as IPVS does. It rejects messages by command and address as
// its table says, acknowledges messages that ask for it, and dies after a number of sends.
type script struct {
	refuse  map[string]unix.Errno // by the text of say
	said    []string              // all messages, in order
	sends   int
	dieAt   int   // the first send that fails; 0 for none
	lose    error // what the next receive returns
	replies [][]byte
}

func (s *script) Send(p []byte) error {
	s.sends++
	if s.dieAt != 0 && s.sends >= s.dieAt {
		return errors.New("died")
	}
	for len(p) > 0 {
		n := binary.NativeEndian.Uint32(p)
		said := say(p[unix.SizeofNlMsghdr:n])
		s.said = append(s.said, said)
		errno := s.refuse[said]
		if errno != 0 || binary.NativeEndian.Uint16(p[6:])&unix.NLM_F_ACK != 0 {
			reply := binary.NativeEndian.AppendUint32(make([]byte, unix.SizeofNlMsghdr), uint32(-int32(errno)))
			reply = append(reply, p[:unix.SizeofNlMsghdr]...)
			binary.NativeEndian.PutUint32(reply, uint32(len(reply)))
			binary.NativeEndian.PutUint16(reply[4:], unix.NLMSG_ERROR)
			binary.NativeEndian.PutUint16(reply[6:], unix.NLM_F_CAPPED)
			copy(reply[8:12], p[8:12])
			s.replies = append(s.replies, reply)
		}
		p = p[n:]
	}
	return nil
}

func (s *script) Receive(buf []byte) (int, error) {
	if err := s.lose; err != nil {
		s.lose, s.replies = nil, nil
		return 0, err
	}
	if len(s.replies) == 0 {
		return 0, nl.ErrTimeout
	}
	n := copy(buf, s.replies[0])
	s.replies = s.replies[1:]
	return n, nil
}

func (s *script) Close() error { return nil }

// say returns a message as text: its command, its virtual server with the scheduler, its real
// server.
func say(payload []byte) string {
	command := [...]string{cmdNewService: "new", cmdSetService: "set", cmdDelService: "del",
		cmdNewDest: "new", cmdSetDest: "set", cmdDelDest: "del"}[payload[0]]
	v, err := decodeService(payload, names{})
	if err != nil {
		return err.Error()
	}
	if d, err := decodeDest(payload, v.Key); err == nil {
		return fmt.Sprintf("%s %v -> %v", command, v.Key.AddrPort(), d.Key.Addr)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %v %s", command, v.Key.AddrPort(), v.Scheduler))
}

// scripted returns a Table with s as its transport.
func scripted(t rapid.TB, s *script) *Table {
	d := &nl.Dialer{Wrap: func(_ int, real nl.Transport) nl.Transport {
		real.Close()
		return s
	}}
	conn, err := d.Dial(unix.NETLINK_GENERIC)
	if err != nil {
		t.Fatal(err)
	}
	return &Table{conn: conn, family: 30, names: names{}}
}

func TestApplyOrder(t *testing.T) {
	old := virtual(kernel.TCP, "10.96.0.1:80", "rr")
	plain := virtual(kernel.TCP, "10.96.0.2:80", "wrr")
	hashed := virtual(kernel.TCP, "[fd00::3]:80", "mh")
	s := &script{}
	errs := scripted(t, s).Apply([]kernel.Op{
		add(plain), add(hashed), change(old),
		add(target(old, "10.0.0.1:80", 1)), add(target(plain, "10.0.0.2:80", 1)), add(target(hashed, "[fd01::3]:80", 1)),
		remove(target(old, "10.0.0.9:80", 1)),
	})
	if errs != nil {
		t.Fatal(errs)
	}
	equal(t, "messages", s.said, []string{
		"new 10.96.0.2:80 wrr",
		"new [fd00::3]:80 mh",
		"set 10.96.0.1:80 rr",
		"new 10.96.0.1:80 -> 10.0.0.1:80",
		"del 10.96.0.1:80 -> 10.0.0.9:80",
		"new 10.96.0.2:80 -> 10.0.0.2:80",
		"new [fd00::3]:80 -> [fd01::3]:80",
	})
	if s.sends != 2 {
		t.Errorf("%d sends, want 2", s.sends)
	}
}

func TestApplyAddsNothingToAVirtualThatIsNotOurs(t *testing.T) {
	theirs := virtual(kernel.TCP, "10.96.0.1:80", "mh")
	ours := virtual(kernel.TCP, "10.96.0.2:80", "rr")
	s := &script{refuse: map[string]unix.Errno{"new 10.96.0.1:80 mh": unix.EEXIST}}
	errs := scripted(t, s).Apply([]kernel.Op{
		add(theirs), add(ours), add(target(theirs, "10.0.0.1:80", 1)), add(target(ours, "10.0.0.1:80", 1)),
	})
	if len(errs) != 4 || !errors.Is(errs[0], unix.EEXIST) || errs[1] != nil || errs[2] == nil || errs[3] != nil {
		t.Errorf("errors %v", errs)
	}
	equal(t, "messages", s.said, []string{"new 10.96.0.1:80 mh", "new 10.96.0.2:80 rr", "new 10.96.0.2:80 -> 10.0.0.1:80"})
}

// A new virtual server with many real servers gets a dear scheduler after the last of them. One that exists keeps its
// scheduler, however many it gains.
func TestApplySetsADearSchedulerLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scheduler := rapid.SampledFrom([]string{"rr", "wrr", "mh", "sh"}).Draw(t, "scheduler")
		n := rapid.SampledFrom([]int{0, 1, 63, 64, 499, 500, 600}).Draw(t, "real servers")
		exists := rapid.Bool().Draw(t, "exists")
		v := virtual(kernel.TCP, "10.96.0.1:80", scheduler)
		ops := []kernel.Op{add(v)}
		first, last := "new 10.96.0.1:80 "+scheduler, ""
		if exists {
			ops, first = nil, ""
		} else if least := latest[scheduler]; least > 0 && n >= least {
			first, last = "new 10.96.0.1:80 rr", "set 10.96.0.1:80 "+scheduler
		}
		for i := range n {
			ops = append(ops, add(target(v, fmt.Sprintf("10.0.%d.%d:80", i/250, i%250+1), 1)))
		}
		s := &script{}
		if errs := scripted(t, s).Apply(ops); errs != nil {
			t.Fatal(errs)
		}
		said := s.said
		if first != "" {
			if said[0] != first {
				t.Fatalf("first %q, want %q", said[0], first)
			}
			said = said[1:]
		}
		if last != "" {
			if said[len(said)-1] != last {
				t.Fatalf("last %q, want %q", said[len(said)-1], last)
			}
			said = said[:len(said)-1]
		}
		if len(said) != n || slices.ContainsFunc(said, func(m string) bool { return !strings.Contains(m, " -> ") }) {
			t.Fatalf("%d real servers by %q", n, said)
		}
	})
}

// A refused change of scheduler leaves the virtual server without any, so the one it had is set again.
func TestApplyRestoresTheScheduler(t *testing.T) {
	v := virtual(kernel.TCP, "10.96.0.1:80", "mh")
	was := virtual(kernel.TCP, "10.96.0.1:80", "wlc")
	added := []kernel.Op{add(v)}
	for i := range latest["mh"] {
		added = append(added, add(target(v, fmt.Sprintf("10.0.0.%d:80", i+1), 1)))
	}
	changed := []kernel.Op{{Verb: kernel.Change, Object: v, Was: was}}
	for _, errno := range []unix.Errno{unix.EINVAL, unix.ENOMEM} {
		for last, ops := range map[string][]kernel.Op{"set 10.96.0.1:80 rr": added, "set 10.96.0.1:80 wlc": changed} {
			s := &script{refuse: map[string]unix.Errno{"set 10.96.0.1:80 mh": errno}}
			errs := scripted(t, s).Apply(ops)
			if len(errs) != len(ops) || !errors.Is(errs[0], errno) || strings.Contains(errs[0].Error(), "4093") != (errno == unix.EINVAL) {
				t.Errorf("errors %v", errs)
			}
			if got := s.said[len(s.said)-1]; got != last {
				t.Errorf("%v: last message %q, want %q", errno, got, last)
			}
		}
	}
}

// If the transport dies at its k-th send, earlier ops succeeded, those of that send are unknown,
// and nothing is sent after it.
func TestApplyStopsWhereTheTransportDies(t *testing.T) {
	ops := bigTable(300, 4, kernel.IPv4)
	for k := 1; k <= 7; k++ {
		s := &script{dieAt: k}
		errs := scripted(t, s).Apply(ops)
		unknown, unsent := 0, 0
		for i, err := range errs {
			switch {
			case errors.Is(err, kernel.ErrUnknownOutcome):
				unknown++
			case err != nil:
				unsent++
			case i >= len(s.said):
				t.Fatalf("k=%d: op %d has no error and was not sent", k, i)
			}
		}
		if s.sends != k || unknown == 0 || unknown > nl.MaxMessages || unknown+unsent+len(s.said) != len(ops) {
			t.Errorf("k=%d: %d sends, %d messages, %d unknown, %d not sent, of %d", k, s.sends, len(s.said), unknown, unsent, len(ops))
		}
	}
}

func TestApplyGoesOnAfterAnOverflow(t *testing.T) {
	ops := bigTable(300, 0, kernel.IPv4)
	s := &script{lose: unix.ENOBUFS}
	errs := scripted(t, s).Apply(ops)
	if len(errs) != 300 || !errors.Is(errs[249], kernel.ErrUnknownOutcome) || errs[250] != nil || len(s.said) != 300 {
		t.Errorf("%d messages, errors %v ... %v", len(s.said), errs[249], errs[250])
	}
}

func TestApplyNothing(t *testing.T) {
	s := &script{}
	if errs := scripted(t, s).Apply(nil); errs != nil || s.sends != 0 {
		t.Errorf("%v, %d sends", errs, s.sends)
	}
}
