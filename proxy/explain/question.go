package explain

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/svcproxy/svcproxy/kernel"
)

// Question is what is asked: about an address and port, or about a service.
type Question struct {
	Proto kernel.Proto
	To    netip.AddrPort
	// From and In are those of Facts.Packet.
	From, In string
	Mark     uint32 // the firewall mark that rules of others give the packet
	Conn     bool   // about a connection that exists, of the client From
	Service  string // NAME or NAMESPACE/NAME; "" if To is asked about
}

// Result is the answer to a Question: an Answer or Services.
type Result interface {
	fmt.Stringer
	Worst() Fate // which decides about the exit code
}

// Worst is the fate.
func (a Answer) Worst() Fate { return a.Fate }

// ErrSource is wrapped by errors about From and In: the packet cannot be.
var ErrSource = errors.New("no such packet")

// Ask answers a question.
func Ask(f Facts, q Question) (Result, error) {
	switch {
	case q.Service != "" && f.Fronts == nil:
		return nil, errors.New("the services have not been read yet")
	case q.Service != "":
		f.Order = nil // the clients stand for all others
		return Service(f, q.Service)
	case q.From == "":
		f.Order = nil
	}
	p, err := f.Packet(q.Proto, q.To, q.From, q.In)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSource, err)
	}
	p.Mark = q.Mark
	if q.Conn {
		if f.Connection == nil {
			return nil, errors.New("the connections of this kernel are not known")
		}
		return Connection(f, p)
	}
	return Explain(f, p), nil
}

// Values are the question as the query of a URL.
func (q Question) Values() url.Values {
	if q.Service != "" {
		return url.Values{"service": {q.Service}}
	}
	v := url.Values{"proto": {q.Proto.String()}, "to": {q.To.String()}, "from": {q.From}, "in": {q.In}}
	if q.Conn {
		v.Set("conn", "1")
	}
	if q.Mark != 0 {
		v.Set("mark", strconv.FormatUint(uint64(q.Mark), 10))
	}
	return v
}

// ParseProto reads the protocol of a packet. A firewall mark is none: Question.Mark has it.
func ParseProto(text string) (kernel.Proto, error) {
	p, err := kernel.ParseProto(text)
	if err == nil && p == kernel.FWMark {
		return 0, fmt.Errorf("protocol %q: want tcp, udp or sctp; --mark gives the packet a mark", text)
	}
	return p, err
}

// ParseQuestion reads the query of a URL.
func ParseQuestion(v url.Values) (q Question, err error) {
	if q.Service = v.Get("service"); q.Service != "" {
		return q, nil
	}
	if q.Proto, err = ParseProto(v.Get("proto")); err != nil {
		return q, err
	}
	q.From, q.In, q.Conn = v.Get("from"), v.Get("in"), v.Get("conn") == "1"
	if mark := v.Get("mark"); mark != "" {
		n, err := strconv.ParseUint(mark, 10, 32)
		if err != nil {
			return q, fmt.Errorf("mark %q: want a number of 32 bits", mark)
		}
		q.Mark = uint32(n)
	}
	q.To, err = netip.ParseAddrPort(v.Get("to"))
	return q, err
}
