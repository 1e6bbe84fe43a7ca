package link

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// settle is how long changes are gathered before they are looked at: setting up
// a link makes about ten messages, within a few milliseconds.
const settle = 50 * time.Millisecond

// Subscription hears of every change to links, addresses and default routes in
// one network namespace. One goroutine at a time may use it.
type Subscription struct {
	events *os.File // a netlink socket
	links  *Links   // to look with

	device  string       // name of our own device
	ours    int          // its index; 0 if it is not there
	node    kernel.Node  // as last seen
	bearers map[int]bool // links whose addresses or default routes the node's facts come from
}

// Subscribe subscribes in the calling thread's network namespace; device is the
// name of our own. A change after its return is told to Watch, so the node is to
// be read after it.
func Subscribe(d *nl.Dialer, device string) (*Subscription, error) {
	events, err := listen()
	if err != nil {
		return nil, fmt.Errorf("subscribing to rtnetlink: %w", err)
	}
	links, err := Open(d)
	if err != nil {
		events.Close()
		return nil, err
	}
	s := &Subscription{events: events, links: links, device: device}
	if _, err := s.look(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the subscription. Watch does so by itself.
func (s *Subscription) Close() error {
	return errors.Join(s.events.Close(), s.links.Close())
}

// Watch calls notify each time that the facts about the node differ from before,
// that our own device was removed, renamed or set up or down, or that changes were lost, until ctx
// ends. Our own writes, to the addresses of our device and the routes of VIPs,
// are not among them. A burst of changes is one call. notify must not block for
// long: it is not called again, nor anything read, meanwhile.
func (s *Subscription) Watch(ctx context.Context, notify func()) error {
	defer s.Close()
	defer context.AfterFunc(ctx, func() { s.events.Close() })()
	buf := make([]byte, 64<<10)
	var waiting, certain bool
	for {
		n, err := s.events.Read(buf)
		v := ignore
		switch {
		case errors.Is(err, os.ErrClosed):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			changed, err := s.look()
			if changed || certain || err != nil { // the next reading meets the error again
				notify()
			}
			waiting, certain = false, false
			s.events.SetReadDeadline(time.Time{})
		case errors.Is(err, unix.ENOBUFS):
			v = tell
		case err != nil:
			return fmt.Errorf("listening to rtnetlink: %w", err)
		default:
			v = s.judge(buf[:n])
		}
		certain = certain || v == tell
		if v != ignore && !waiting {
			waiting = true
			s.events.SetReadDeadline(time.Now().Add(settle))
		}
	}
}

// verdict is what a message calls for.
type verdict int

const (
	ignore verdict = iota
	look           // the facts may differ
	tell           // the caller has to know in any case
)

func (s *Subscription) judge(datagram []byte) verdict {
	messages, err := syscall.ParseNetlinkMessage(datagram)
	if err != nil {
		return tell
	}
	v := ignore
	for _, m := range messages {
		v = max(v, s.judgeMessage(m.Header.Type, m.Data))
	}
	return v
}

func (s *Subscription) judgeMessage(typ uint16, p []byte) verdict {
	switch typ {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		d, err := decodeLink(p)
		switch {
		case err != nil:
			return tell
		case p[0] != unix.AF_UNSPEC: // a bridge's port
			return ignore
		case typ == unix.RTM_DELLINK && d.index == s.ours:
			s.own(0)
			return tell
		case typ == unix.RTM_NEWLINK && d.index == s.ours:
			return tell // renamed, or set up or down, which takes its IPv6 addresses
		case typ == unix.RTM_NEWLINK && d.name == s.device:
			s.own(d.index)
		case s.bearers[d.index]:
			return look
		}
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		x, ok, err := decodeAddr(p)
		switch a := x.prefix.Addr(); {
		case err != nil:
			return tell
		case ok && x.index != s.ours && !a.IsLoopback() && !a.IsLinkLocalUnicast():
			return look
		}
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		_, ok, err := decodeRoute(p)
		switch {
		case err != nil:
			return tell
		case ok:
			return look
		}
	}
	return ignore
}

// own remembers the index of our device and has the kernel drop what happens to
// its addresses.
func (s *Subscription) own(index int) {
	if index == s.ours {
		return
	}
	s.ours = index
	// Without it messages are only dropped later, by judge.
	_ = attach(s.events, index)
}

// look finds out whether the facts about the node differ from before.
func (s *Subscription) look() (changed bool, err error) {
	v, err := s.links.survey()
	if err != nil {
		return false, err
	}
	ours := 0
	for _, d := range v.devices {
		if d.name == s.device {
			ours = d.index
		}
	}
	s.own(ours)
	s.bearers = v.bearers(ours)
	before := s.node
	s.node = v.node(ours)
	return !reflect.DeepEqual(before, s.node), nil
}

// bearers are the devices that the facts about the node come from. What becomes
// of any other, such as a container's, does not matter before it gets an address.
func (s survey) bearers(ours int) map[int]bool {
	b := make(map[int]bool)
	for _, x := range s.addrs {
		if x.index != ours && x.isNodes() {
			b[x.index] = true
		}
	}
	for _, r := range s.routes {
		b[r.device] = true
	}
	return b
}
