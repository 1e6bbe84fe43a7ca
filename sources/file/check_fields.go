package file

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// Types of checks that have keys in common.
var (
	forHTTP     = []sources.CheckType{sources.CheckHTTP, sources.CheckHTTPS}
	forBytes    = []sources.CheckType{sources.CheckTCP, sources.CheckUDP, sources.CheckAgent}
	forAnswers  = []sources.CheckType{sources.CheckTCP, sources.CheckUDP}
	forTexts    = []sources.CheckType{sources.CheckTCP, sources.CheckUDP, sources.CheckDNS}
	forTLS      = []sources.CheckType{sources.CheckHTTPS, sources.CheckTLS, sources.CheckGRPC}
	forDNS      = []sources.CheckType{sources.CheckDNS}
	forGRPC     = []sources.CheckType{sources.CheckGRPC}
	forExec     = []sources.CheckType{sources.CheckExec}
	forPorts    = slices.DeleteFunc(sources.CheckTypes(), func(t sources.CheckType) bool { return t == sources.CheckPing })
	forSockets  = slices.DeleteFunc(sources.CheckTypes(), func(t sources.CheckType) bool { return t == sources.CheckExec })
	checkType   = word(sources.CheckTypes()...)
	pauses      = fields.DurationIn(10*time.Millisecond, 24*time.Hour)
	resultCount = fields.Int(1, 1000)
)

// checkFields are the keys of a health check. The type is read first: most keys belong to a few types. They
// are made when they are first needed, like those of services and endpoints, because commands such as version
// read no services.
var checkFields = sync.OnceValue(func() fields.Table[draftCheck] {
	return fields.Table[draftCheck]{
		fields.Define("type", fields.At(func(c *draftCheck) *sources.CheckType { return &c.Probe.Type }, checkType),
			"", "what a probe does; required"),
		of(forPorts, fields.Define("port", fields.Custom(fields.KindPortOrName, readCheckPort),
			"", "where to probe; absent: each of the endpoint's ports; one that the type cannot ask is judged by another")),
		of(forHTTP, fields.Define("path", probed(func(p *sources.Probe) *string {
			return &p.Path
		}, fields.StringOf(checkPath)),
			`"/"`, "what to ask for, with the query if there is one")),
		of(forHTTP, fields.Define("host", probed(func(p *sources.Probe) *string {
			return &p.Host
		}, fields.StringOf(checkHost)),
			"", "the Host header, and the server name of https; absent: address and port")),
		of(forHTTP, fields.Define("method", probed(func(p *sources.Probe) *string {
			return &p.Method
		}, word("GET", "HEAD", "OPTIONS", "POST")),
			`"GET"`, "how to ask")),
		of(forHTTP, fields.Define("headers", fields.Custom(fields.KindTexts, readHeaders),
			"", `further headers, as { Accept = "text/plain" }`)),
		of(forHTTP, fields.Define("expectStatus", fields.Custom(fields.KindStrings, readStatus),
			`["200-399"]`, "the status codes that are good, and ranges of them")),
		of(forHTTP, fields.Define("expectBody", probed(func(p *sources.Probe) *string {
			return &p.ExpectBody
		}, fields.StringOf(checkAnswer)),
			"", "what the first 4 KiB of the body must contain")),
		of(forBytes, fields.Define("send", probed(func(p *sources.Probe) *string {
			return &p.Send
		}, fields.StringOf(checkAnswer)),
			"", "what to send")),
		of(forBytes, fields.Define("sendHex", probed(func(p *sources.Probe) *string { return &p.Send }, hexBytes),
			"", "the same in hexadecimal digits")),
		of(forTexts, fields.Define("expect", probed(func(p *sources.Probe) *string {
			return &p.Expect
		}, fields.StringOf(checkAnswer)),
			"", "what the first 4 KiB of the answer must contain; of type dns, the data of one record")),
		of(forAnswers, fields.Define("expectHex", probed(func(p *sources.Probe) *string { return &p.Expect }, hexBytes),
			"", "the same in hexadecimal digits")),
		of(forDNS, fields.Define("query", probed(func(p *sources.Probe) *string {
			return &p.Query
		}, fields.StringOf(checkQuery)),
			`"."`, "the name to ask for; every answer but SERVFAIL and REFUSED is good")),
		of(forDNS, fields.Define("recordType", probed(func(p *sources.Probe) *string {
			return &p.RecordType
		}, word("A", "AAAA", "ANY", "CNAME", "MX", "NS", "PTR", "SOA", "SRV", "TXT")),
			`"A"`, "the type of record to ask for")),
		of(forGRPC, fields.Define("service", probed(func(p *sources.Probe) *string {
			return &p.Service
		}, fields.StringOf(checkLine)),
			"", "the service to ask grpc.health.v1.Health about; absent: the server as a whole")),
		of(forGRPC, fields.Define("tls", probed(func(p *sources.Probe) *bool { return &p.TLS }, fields.Bool),
			"false", "ask over TLS")),
		of(forTLS, fields.Define("verify", probed(func(p *sources.Probe) *bool { return &p.Verify }, fields.Bool),
			"false", "the certificate must be valid and have the server's name")),
		of(forTLS, fields.Define("serverName", probed(func(p *sources.Probe) *string {
			return &p.ServerName
		}, fields.StringOf(checkHost)),
			"", "the name in the certificate, which is also sent; absent: host, else the address")),
		of(forTLS, fields.Define("caFile", probed(func(p *sources.Probe) *string {
			return &p.CAFile
		}, fields.StringOf(checkFile)),
			"", "with verify: the authorities to trust, in PEM; absent: the system's")),
		of(forExec, fields.Define("command", probed(func(p *sources.Probe) *string {
			return &p.Command
		}, fields.StringOf(checkFile)),
			"", "the program, an absolute path in a directory of health.execDirs of svcproxy.toml; it runs as "+
				"health.execUser; required; exit status 0 is good, 1 is bad, n from 2 to 255 is good with n-2 % of the weight")),
		of(forExec, fields.Define("args", fields.Custom(fields.KindStrings, readArgs),
			"", "its arguments; no shell reads them; $SVCPROXY_ADDRESS and $SVCPROXY_PORT in one stand for the endpoint's")),
		of(forExec, fields.Define("onlyZero", probed(func(p *sources.Probe) *bool { return &p.OnlyZero }, fields.Bool),
			"false", "every exit status but 0 is bad")),
		fields.Define("interval", tuned(sources.HealthInterval, func(c *sources.HealthCheck) *time.Duration {
			return &c.Interval
		}, pauses),
			"", nodeDefault("the time between two probes of an endpoint", "interval")),
		fields.Define("timeout", tuned(sources.HealthTimeout, func(c *sources.HealthCheck) *time.Duration {
			return &c.Probe.Timeout
		}, pauses),
			"", nodeDefault("how long a probe may take, at most 10 times the interval", "timeout")),
		fields.Define("fall", tuned(sources.HealthFall, func(c *sources.HealthCheck) *int { return &c.Fall }, resultCount),
			"", nodeDefault("bad results in a row that take an endpoint down", "fall")),
		fields.Define("rise", tuned(sources.HealthRise, func(c *sources.HealthCheck) *int { return &c.Rise }, resultCount),
			"", nodeDefault("good results in a row that bring it back", "rise")),
		fields.Define("fastInterval", tuned(sources.HealthFastInterval, func(c *sources.HealthCheck) *time.Duration {
			return &c.FastInterval
		}, pauses),
			"", nodeDefault("the interval after a result that differs, until the state is decided", "fastInterval")),
		fields.Define("downInterval", tuned(sources.HealthDownInterval, func(c *sources.HealthCheck) *time.Duration {
			return &c.DownInterval
		}, pauses),
			"", nodeDefault("the interval while an endpoint is down", "downInterval")),
		fields.Define("jitter", tuned(sources.HealthJitter, func(c *sources.HealthCheck) *float64 {
			return &c.Jitter
		}, fields.FloatIn(0, 0.5)),
			"", nodeDefault("the part of an interval by which a probe comes earlier at most, 0 to 0.5", "jitter")),
		of(forSockets, fields.Define("source", probed(func(p *sources.Probe) *netip.Addr { return &p.Source }, addr),
			"", "the address to probe from; absent: the kernel's choice")),
		of(forSockets, fields.Define("interface", probed(func(p *sources.Probe) *string {
			return &p.Interface
		}, fields.StringOf(checkInterface)),
			"", "the interface to probe through; absent: as routed")),
		of(forSockets, fields.Define("mark", probed(func(p *sources.Probe) *uint32 { return &p.Mark }, mark),
			"0", "the mark of the probes' packets")),
		fields.Define("via", fields.Value[draftCheck]{Kind: fields.KindWord, Words: via.Words, Set: readVia},
			`"direct"`, "direct: probes go to the endpoint's address; vip: the endpoint must also answer for the service's "+
				"VIP, without masquerading"),
		fields.Define("initial", fields.At(func(c *draftCheck) *sources.Initial {
			return &c.Initial
		}, word(sources.InitialKernel, sources.InitialUp, sources.InitialDown)),
			`"kernel"`, "the state before the first result; kernel: as the kernel serves it, a new endpoint is up"),
		fields.Define("onDown", tuned(sources.HealthOnDown, func(c *sources.HealthCheck) *sources.OnDown {
			return &c.OnDown
		}, word(sources.DownDrain, sources.DownCut)),
			"", nodeDefault("drain: an endpoint that goes down keeps its connections; cut: they end", "onDown")),
		fields.Define("onAllDown", tuned(sources.HealthOnAllDown, func(c *sources.HealthCheck) *sources.OnAllDown {
			return &c.OnAllDown
		}, word(sources.AllDownOpen, sources.AllDownClosed)),
			"", nodeDefault("with no endpoint up, open: all are used; closed: connections are refused", "onAllDown")),
		fields.Define("minHealthy", fields.Custom(fields.KindAmount, readMinHealthy),
			"", nodeDefault("with fewer endpoints up than this, all that are not drained get connections", "minHealthy")),
		fields.Define("passive", fields.At(func(c *draftCheck) *bool { return &c.Passive }, fields.Bool),
			"false", "an endpoint that answers none of its clients, as the condition silent says, counts as down for 5 minutes"),
		fields.Define("slowStart", tuned(sources.HealthSlowStart, func(c *sources.HealthCheck) *time.Duration {
			return &c.SlowStart
		}, fields.DurationIn(0, 24*time.Hour)),
			"", nodeDefault("how long an endpoint that comes up takes to get its full weight; wrr, wlc, sed, nq, lblc and "+
				"lblcr heed it", "slowStart")),
	}
})

// of says which types a key belongs to, in its comment and in an error. A check whose type is refused may have any key.
func of(types []sources.CheckType, f fields.Field[draftCheck]) fields.Field[draftCheck] {
	words := make([]string, len(types))
	for i, t := range types {
		words[i] = string(t)
	}
	list := strings.Join(words, ", ")
	f.Comment = "type " + list + ": " + f.Comment
	set := f.Set
	f.Set = func(c *draftCheck, n node) error {
		if c.Probe.Type != "" && !slices.Contains(types, c.Probe.Type) {
			return fmt.Errorf("has no effect on a check of type %s: it belongs to type %s", c.Probe.Type, list)
		}
		return set(c, n)
	}
	return f
}

// probed is a value of a probe.
func probed[V any](at func(*sources.Probe) *V, t fields.Type[V]) fields.Value[draftCheck] {
	return fields.At(func(c *draftCheck) *V { return at(&c.Probe) }, t)
}

// tuned is a value whose default is the node's.
func tuned[V any](key sources.HealthKeys, at func(*sources.HealthCheck) *V, t fields.Type[V]) fields.Value[draftCheck] {
	v := fields.At(func(c *draftCheck) *V { return at(&c.HealthCheck) }, t)
	set := v.Set
	v.Set = func(c *draftCheck, n node) error {
		c.Unset &^= key
		return set(c, n)
	}
	return v
}

func nodeDefault(comment, key string) string {
	return comment + "; absent: health." + key + " of svcproxy.toml"
}

func readMinHealthy(c *draftCheck, n node) error {
	amount, err := fields.AmountOf.Read(n)
	c.Unset &^= sources.HealthMinHealthy
	c.MinHealthy, c.MinHealthyPercent = amount.N, amount.Percent
	return err
}

// mark is any mark but those above 32 bits.
var mark = fields.Type[uint32]{
	Kind: fields.KindInteger, Min: 0, Max: math.MaxInt32,
	Read: func(n node) (uint32, error) {
		switch i, ok := n.Integer(); {
		case !ok:
			return 0, n.Mistyped("an integer")
		case i < 0 || i > math.MaxUint32:
			return 0, fmt.Errorf("is %d: must be 0 to %#x", i, uint32(math.MaxUint32))
		default:
			return uint32(i), nil
		}
	},
}

// via is direct, which Via has as "", or vip.
var via = word("direct", string(sources.ViaVIP))

func readVia(c *draftCheck, n node) error {
	text, err := via.Read(n)
	if err != nil || text != string(sources.ViaVIP) {
		return err
	}
	if t := c.Probe.Type; t != "" && t.Protocol() != sources.TCP {
		return fmt.Errorf(`"vip" needs a check that connects by TCP, and type %s does not`, t)
	}
	c.Probe.Via = sources.ViaVIP
	return nil
}
