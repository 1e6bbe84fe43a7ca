package link

import (
	"context"
	"encoding/binary"
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

// debounce is how long a Subscription collects changes before it reads the node again. Setting up a
// link makes about ten messages within a few milliseconds.
const debounce = 50 * time.Millisecond

// Subscription receives changes of links, addresses and default routes in one network namespace.
// One goroutine at a time may use it.
type Subscription struct {
	events *os.File // a netlink socket
	links  *Links   // to read the node with

	device  string       // name of our own device
	ours    int          // index of our device; 0 if it does not exist
	node    kernel.Node  // at the last reading
	bearers map[int]bool // links whose addresses or default routes the node's facts come from
	down    map[int]bool // bearers that have lost their carrier
}

// Subscribe subscribes in the network namespace of the calling thread. device is the name of our
// own device. Watch reports every change after Subscribe has returned, so read the node after that.
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
	if _, err := s.reread(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the subscription. Watch also does so when it returns.
func (s *Subscription) Close() error {
	return errors.Join(s.events.Close(), s.links.Close())
}

// Watch calls notify when the facts about the node changed, when our device was removed, renamed,
// or set up or down, and when messages were lost. It returns when ctx ends. A burst of changes is
// one call.
//
// Our own writes, to the addresses of our device and to routes of VIPs, do not count. notify must
// not block for long, because nothing is read meanwhile.
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
			changed, err := s.reread()
			if changed || certain || err != nil { // the next reading returns the error again
				notify()
			}
			waiting, certain = false, false
			s.events.SetReadDeadline(time.Time{})
		case errors.Is(err, unix.ENOBUFS):
			v = report
		case err != nil:
			return fmt.Errorf("listening to rtnetlink: %w", err)
		default:
			v = s.judge(buf[:n])
		}
		certain = certain || v == report
		if v != ignore && !waiting {
			waiting = true
			s.events.SetReadDeadline(time.Now().Add(debounce))
		}
	}
}

// verdict is what to do about a message.
type verdict int

const (
	ignore verdict = iota
	reread         // read the node again: the facts may have changed
	report         // notify the caller in any case
)

func (s *Subscription) judge(datagram []byte) verdict {
	messages, err := syscall.ParseNetlinkMessage(datagram)
	if err != nil {
		return report
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
			return report
		case p[0] != unix.AF_UNSPEC: // the port of a bridge
			return ignore
		case typ == unix.RTM_DELLINK && d.index == s.ours:
			s.own(0)
			return report
		case typ == unix.RTM_NEWLINK && d.index == s.ours:
			return report // renamed, or set up or down, which deletes its IPv6 addresses
		case typ == unix.RTM_NEWLINK && d.name == s.device:
			s.own(d.index)
		case s.bearers[d.index]:
			if s.carrierIsBack(d.index, binary.NativeEndian.Uint32(p[8:])) {
				return report
			}
			return reread
		}
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		x, ok, err := decodeAddr(p)
		switch a := x.prefix.Addr(); {
		case err != nil:
			return report
		case ok && x.index != s.ours && !a.IsLoopback() && !a.IsLinkLocalUnicast():
			return reread
		}
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		_, ok, err := decodeRoute(p)
		switch {
		case err != nil:
			return report
		case ok:
			return reread
		}
	}
	return ignore
}

// carrierIsBack reports whether a link has a carrier again, by its flags: the kernel removes proxy neighbours
// when a link loses it.
func (s *Subscription) carrierIsBack(index int, flags uint32) bool {
	up, was := flags&unix.IFF_LOWER_UP != 0, s.down[index]
	if s.down == nil {
		s.down = map[int]bool{}
	}
	s.down[index] = !up
	return was && up
}

// own remembers the index of our device, and makes the kernel drop messages about its addresses.
func (s *Subscription) own(index int) {
	if index == s.ours {
		return
	}
	s.ours = index
	// If this fails, judge drops the messages.
	_ = nl.Attach(s.events, filter(index))
}

// reread reads the node and reports whether the facts differ from the last reading.
func (s *Subscription) reread() (changed bool, err error) {
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

// bearers returns the devices that the facts about the node come from. Other devices, such as those
// of containers, do not matter until they get an address.
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
