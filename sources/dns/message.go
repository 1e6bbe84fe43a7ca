package dns

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// mostRecords is how many records of a message are read: a name has sources.MostAddresses, and there may be others.
	mostRecords = 1000
	// mostSteps is the longest chain of CNAME records that is followed.
	mostSteps = 8
	// udpSize is the size of answers over UDP that servers are told of: the one of DNS Flag Day 2020. Longer ones come
	// over TCP.
	udpSize = 1232
)

// errForeign says that a message is not the answer to the question: a forged one, or a late one.
var errForeign = errors.New("is not an answer to the question")

// errTruncated says that the answer has to be asked for over TCP.
var errTruncated = errors.New("the answer is truncated")

// question is what a server is asked.
type question struct {
	name string // without the last dot
	kind dnsmessage.Type
}

// pack returns the message for a question.
func (q question) pack(id uint16) ([]byte, error) {
	name, err := dnsmessage.NewName(q.name + ".")
	if err != nil {
		return nil, err
	}
	b := dnsmessage.NewBuilder(make([]byte, 0, 128), dnsmessage.Header{ID: id, RecursionDesired: true})
	var opt dnsmessage.ResourceHeader
	err = errors.Join(b.StartQuestions(),
		b.Question(dnsmessage.Question{Name: name, Type: q.kind, Class: dnsmessage.ClassINET}),
		b.StartAdditionals(), opt.SetEDNS0(udpSize, dnsmessage.RCodeSuccess, false),
		b.OPTResource(opt, dnsmessage.OPTResource{}))
	if err != nil {
		return nil, err
	}
	return b.Finish()
}

// target is an SRV record.
type target struct {
	host                   string
	port, priority, weight uint16
}

// reply is what a message says about a question.
type reply struct {
	addrs   []netip.Addr
	targets []target
	alias   string // the name that is to be asked for instead; "" = the answer is whole
	steps   int    // of CNAME records
	ttl     time.Duration
}

// parse reads the message that came for a question with an id. Of its sections only the answers count: what a server
// adds about other names is not asked for.
func (q question) parse(message []byte, id uint16) (r reply, err error) {
	var p dnsmessage.Parser
	h, err := p.Start(message)
	if err != nil || !h.Response || h.ID != id || h.OpCode != 0 {
		return r, errForeign
	}
	asked, err := p.Question()
	if err != nil || asked.Type != q.kind || asked.Class != dnsmessage.ClassINET || hostOf(asked.Name) != q.name {
		return r, errForeign
	}
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return r, errForeign
	}
	switch {
	case h.RCode == dnsmessage.RCodeNameError:
		return r, fmt.Errorf("does not exist (NXDOMAIN): %w", errNone)
	case h.RCode != dnsmessage.RCodeSuccess:
		return r, fmt.Errorf("the server answers %s", strings.TrimPrefix(h.RCode.String(), "RCode"))
	case h.Truncated:
		return r, errTruncated
	}
	records, err := q.records(&p)
	if err != nil {
		return r, err
	}
	return records.follow(q.name)
}

// records are those of an answer, by owner.
type records struct {
	replies map[string]*reply
	aliases map[string]alias
}

type alias struct {
	to  string
	ttl time.Duration
}

func (q question) records(p *dnsmessage.Parser) (records, error) {
	all := records{map[string]*reply{}, map[string]alias{}}
	for n := 0; ; n++ {
		h, err := p.AnswerHeader()
		switch {
		case errors.Is(err, dnsmessage.ErrSectionDone):
			return all, nil
		case err != nil:
			return all, fmt.Errorf("the answer is malformed: %w", err)
		case n == mostRecords:
			return all, fmt.Errorf("the answer has more than %d records", mostRecords)
		}
		if err := all.add(q, p, h); err != nil {
			return all, fmt.Errorf("the answer is malformed: %w", err)
		}
	}
}

// add adds a record, if it is of the question's type or an alias.
func (all records) add(q question, p *dnsmessage.Parser, h dnsmessage.ResourceHeader) error {
	owner, ttl := hostOf(h.Name), ttlOf(h.TTL)
	if h.Class != dnsmessage.ClassINET || h.Type != q.kind && h.Type != dnsmessage.TypeCNAME {
		return p.SkipAnswer()
	}
	if h.Type == dnsmessage.TypeCNAME {
		body, err := p.CNAMEResource()
		if _, twice := all.aliases[owner]; err == nil && !twice {
			all.aliases[owner] = alias{hostOf(body.CNAME), ttl}
		}
		return err
	}
	r := all.replies[owner]
	if r == nil {
		r = &reply{ttl: ttl}
		all.replies[owner] = r
	}
	r.ttl = min(r.ttl, ttl)
	switch h.Type {
	case dnsmessage.TypeA:
		body, err := p.AResource()
		r.addrs = append(r.addrs, netip.AddrFrom4(body.A))
		return err
	case dnsmessage.TypeAAAA:
		body, err := p.AAAAResource()
		r.addrs = append(r.addrs, netip.AddrFrom16(body.AAAA))
		return err
	}
	body, err := p.SRVResource()
	r.targets = append(r.targets, target{hostOf(body.Target), body.Port, body.Priority, body.Weight})
	return err
}

// follow returns the records at the end of a name's aliases.
func (all records) follow(name string) (reply, error) {
	ttl := time.Duration(1<<63 - 1)
	for steps := 0; steps <= mostSteps; steps++ {
		if r := all.replies[name]; r != nil {
			r.ttl, r.steps = min(r.ttl, ttl), steps
			return *r, nil
		}
		next, ok := all.aliases[name]
		switch {
		case !ok && steps == 0:
			return reply{}, errNone
		case !ok:
			return reply{alias: name, steps: steps, ttl: ttl}, nil
		}
		name, ttl = next.to, min(ttl, next.ttl)
	}
	return reply{}, errChain
}

var errChain = fmt.Errorf("its CNAME records are a loop, or more than %d", mostSteps)

// hostOf returns a name as Key.Host has it.
func hostOf(n dnsmessage.Name) string { return strings.ToLower(strings.TrimSuffix(n.String(), ".")) }

// ttlOf reads a TTL. One with the highest bit is 0: RFC 2181, section 8.
func ttlOf(ttl uint32) time.Duration {
	if ttl >= 1<<31 {
		return 0
	}
	return time.Duration(ttl) * time.Second
}
