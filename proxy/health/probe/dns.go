package probe

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/net/dns/dnsmessage"
)

// recordTypes are the types that a dns probe can ask for.
var recordTypes = map[string]dnsmessage.Type{
	"": dnsmessage.TypeA, "A": dnsmessage.TypeA, "AAAA": dnsmessage.TypeAAAA, "CNAME": dnsmessage.TypeCNAME,
	"MX": dnsmessage.TypeMX, "NS": dnsmessage.TypeNS, "PTR": dnsmessage.TypePTR, "SOA": dnsmessage.TypeSOA,
	"SRV": dnsmessage.TypeSRV, "TXT": dnsmessage.TypeTXT, "ANY": dnsmessage.TypeALL,
}

// rcodes are the names of the response codes that a server sends by itself.
var rcodes = map[dnsmessage.RCode]string{
	dnsmessage.RCodeFormatError: "FORMERR", dnsmessage.RCodeServerFailure: "SERVFAIL",
	dnsmessage.RCodeNameError:      "NXDOMAIN",
	dnsmessage.RCodeNotImplemented: "NOTIMP", dnsmessage.RCodeRefused: "REFUSED",
}

// maxRecords bounds how many records of an answer are compared with what is expected.
const maxRecords = 100

// dns sends one query over UDP. Every answer but SERVFAIL and REFUSED is ok. With Expect, the data of one record
// must contain it.
func (a *attempt) dns() Result {
	id := uint16(rand.Uint32())
	query, question, err := dnsQuery(id, a.Query, a.RecordType)
	if err != nil {
		return result(Void, err.Error())
	}
	c, err := a.dial(syscall.SOCK_DGRAM, 0)
	if err != nil {
		return failure(err, "connect")
	}
	defer c.Close()
	if _, err := c.Write(query); err != nil {
		return failure(err, "send")
	}
	a.done("sent")
	defer a.done("ended")
	return receive(c, func(datagram []byte) (Result, bool) {
		return judgeDNS(datagram, id, question, a.Expect)
	})
}

// dnsQuery returns a recursive query for one name, "." if it is empty.
func dnsQuery(id uint16, name, recordType string) ([]byte, dnsmessage.Question, error) {
	kind, known := recordTypes[strings.ToUpper(recordType)]
	if !known {
		return nil, dnsmessage.Question{}, fmt.Errorf("unknown record type %q", recordType)
	}
	if !strings.HasSuffix(name, ".") {
		name += "."
	}
	full, err := dnsmessage.NewName(name)
	if err != nil {
		return nil, dnsmessage.Question{}, err
	}
	question := dnsmessage.Question{Name: full, Type: kind, Class: dnsmessage.ClassINET}
	query, err := (&dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{question},
	}).Pack()
	return query, question, err
}

// judgeDNS returns the result of a datagram; false if it does not answer the query.
func judgeDNS(datagram []byte, id uint16, asked dnsmessage.Question, expect string) (Result, bool) {
	var p dnsmessage.Parser
	header, err := p.Start(datagram)
	if err != nil {
		return result(Malformed, err.Error()), true
	}
	if header.ID != id || !header.Response {
		return Result{}, false
	}
	if header.RCode == dnsmessage.RCodeServerFailure || header.RCode == dnsmessage.RCodeRefused {
		return Result{Outcome: DNS, Code: int(header.RCode), Detail: rcodes[header.RCode]}, true
	}
	// A server that does not understand the query may leave the question out.
	question, err := p.Question()
	if err != nil && err != dnsmessage.ErrSectionDone {
		return result(Malformed, err.Error()), true
	}
	if err == nil && (question.Type != asked.Type || !strings.EqualFold(question.Name.String(), asked.Name.String())) {
		return Result{}, false
	}
	detail := rcodes[header.RCode]
	if expect == "" {
		return Result{Outcome: OK, Code: int(header.RCode), Detail: detail}, true
	}
	if err := p.SkipAllQuestions(); err != nil {
		return result(Malformed, err.Error()), true
	}
	return expectRecord(&p, expect, detail), true
}

func expectRecord(p *dnsmessage.Parser, expect, detail string) Result {
	for range maxRecords {
		record, err := p.Answer()
		switch {
		case errors.Is(err, dnsmessage.ErrSectionDone):
			return Result{Outcome: Answer, Detail: detail}
		case err != nil:
			return result(Malformed, err.Error())
		case strings.Contains(recordText(record.Body), expect):
			return Result{Outcome: OK}
		}
	}
	return Result{Outcome: Answer, Detail: detail}
}

// recordText returns the data of a record as zone files write it.
func recordText(body dnsmessage.ResourceBody) string {
	switch b := body.(type) {
	case *dnsmessage.AResource:
		return netip.AddrFrom4(b.A).String()
	case *dnsmessage.AAAAResource:
		return netip.AddrFrom16(b.AAAA).String()
	case *dnsmessage.CNAMEResource:
		return b.CNAME.String()
	case *dnsmessage.NSResource:
		return b.NS.String()
	case *dnsmessage.PTRResource:
		return b.PTR.String()
	case *dnsmessage.MXResource:
		return strconv.Itoa(int(b.Pref)) + " " + b.MX.String()
	case *dnsmessage.TXTResource:
		return strings.Join(b.TXT, "")
	case *dnsmessage.SRVResource:
		return fmt.Sprintf("%d %d %d %s", b.Priority, b.Weight, b.Port, b.Target.String())
	case *dnsmessage.SOAResource:
		return fmt.Sprintf("%s %s %d", b.NS.String(), b.MBox.String(), b.Serial)
	}
	return ""
}
