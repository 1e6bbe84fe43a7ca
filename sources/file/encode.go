package file

import (
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// Words are the keys that Encode chooses where two say the same.
type Words int

// The words of a services file. Decode reads both.
const (
	EdgeWords       Words = iota // vips, keepClientAddress, port and backends, and no type where the others tell it
	KubernetesWords              // type, clusterIPs, loadBalancerIPs, ports and endpoints
)

// Encode returns a services file with one service. Decode reads the same service from it, but for what no services file
// can say: an endpoint that serves only some of its service's ports, and hints that do not follow from its zone and
// the service's trafficDistribution.
func Encode(s *sources.Service, words Words) string {
	e := encoder{words: words}
	name := s.Name
	if s.Namespace != sources.DefaultNamespace {
		name = s.FullName()
	}
	fmt.Fprintf(&e, "[services.%s]\n", fields.KeyText(name))
	e.service(s)
	return e.String()
}

// encoder writes keys and their values, each on its line.
type encoder struct {
	strings.Builder
	words    Words
	oneLimit bool // the service has the limits of its endpoints
}

func (e *encoder) key(name, value string) { fmt.Fprintf(e, "%s = %s\n", name, value) }

// text writes a string unless it is empty.
func (e *encoder) text(name, value string) {
	if value != "" {
		e.key(name, fields.Text(value))
	}
}

// number writes a number unless it is 0.
func (e *encoder) number(name string, n int) {
	if n != 0 {
		e.key(name, strconv.Itoa(n))
	}
}

// list writes an array unless it is empty. Tables stand one on a line.
func (e *encoder) list(name string, values []string) {
	switch {
	case len(values) == 0:
	case slices.ContainsFunc(values, isTable):
		e.key(name, "[\n  "+strings.Join(values, ",\n  ")+",\n]")
	default:
		e.key(name, array(values))
	}
}

func isTable(value string) bool { return strings.HasPrefix(value, "{") }

func (e *encoder) service(s *sources.Service) {
	if e.words == EdgeWords {
		e.reach(s)
	} else {
		e.reachKubernetes(s)
	}
	if s.ExternalTrafficPolicy != sources.Cluster {
		e.text("externalTrafficPolicy", string(s.ExternalTrafficPolicy))
	}
	if s.InternalTrafficPolicy != sources.Cluster {
		e.text("internalTrafficPolicy", string(s.InternalTrafficPolicy))
	}
	if s.Affinity != sources.AffinityNone {
		e.text("sessionAffinity", string(s.Affinity))
		if s.AffinityTimeout != sources.DefaultAffinityTimeout {
			e.key("sessionAffinityTimeout", durationText(s.AffinityTimeout))
		}
	}
	e.number("sessionAffinityPrefix4", int(s.AffinityPrefix4))
	e.number("sessionAffinityPrefix6", int(s.AffinityPrefix6))
	if s.HealthCheckNodePort != 0 {
		e.key("healthCheckNodePort", strconv.Itoa(int(s.HealthCheckNodePort)))
	}
	if s.PublishNotReadyAddresses {
		e.key("publishNotReadyAddresses", "true")
	}
	e.text("trafficDistribution", string(s.TrafficDistribution))
	e.text("scheduler", s.Scheduler)
	if s.SchedulerFlags != 0 {
		e.key("schedulerFlags", array(each(s.SchedulerFlags.Words(s.Scheduler), textOf)))
	}
	if s.OnePacket {
		e.key("onePacket", "true")
	}
	if e.oneLimit = sameLimits(s.Endpoints); e.oneLimit {
		encodeLimits(e.key, &s.Endpoints[0])
	}
	e.encodeClients(s.Clients)
	e.text("forward", string(s.Forward))
	if s.DrainTimeout != nil {
		e.key("drainTimeout", durationText(*s.DrainTimeout))
	}
	if s.Announce != nil {
		e.key("announce", strconv.FormatBool(*s.Announce))
	}
	if s.AnnounceMinHealthy != nil {
		e.key("announceMinHealthy", strconv.Itoa(*s.AnnounceMinHealthy))
	}
	if s.HealthCheck != nil {
		e.key("healthCheck", encodeCheck(s.HealthCheck))
	}
	endpoints := "endpoints"
	if e.words == EdgeWords {
		endpoints = "backends"
	}
	e.list(endpoints, append(each(s.Endpoints, func(p sources.Endpoint) string { return e.endpoint(&p, s.Ports) }),
		each(s.Names, func(n sources.Name) string { return e.name(&n, s.Ports) })...))
}

// reachKubernetes writes by what a service is reached.
func (e *encoder) reachKubernetes(s *sources.Service) {
	if s.Type != sources.ClusterIP || s.Type != inferType(s, hasNodePort(s)) {
		e.text("type", string(s.Type))
	}
	e.list("clusterIPs", quoted(s.ClusterIPs))
	e.list("externalIPs", quoted(s.ExternalIPs))
	e.list("loadBalancerIPs", each(s.LoadBalancerIPs, encodeVIP))
	e.list("loadBalancerSourceRanges", quoted(s.SourceRanges))
	if !e.mark(s) {
		e.list("ports", each(s.Ports, encodePort))
	}
}

// mark writes the firewall mark of a service that has one instead of ports.
func (e *encoder) mark(s *sources.Service) bool {
	if s.FWMark != 0 {
		e.key("fwmark", strconv.FormatUint(uint64(s.FWMark), 10))
	}
	return s.FWMark != 0
}

// reach writes the same in the words of the edge.
func (e *encoder) reach(s *sources.Service) {
	if s.Type != inferType(s, hasNodePort(s)) {
		e.text("type", string(s.Type))
	}
	keep := s.Type == sources.ClusterIP && len(s.ClusterIPs) > 0 && len(s.LoadBalancerIPs) == 0
	if keep {
		e.list("vips", quoted(s.ClusterIPs))
		e.key("keepClientAddress", "true")
	} else {
		e.list("clusterIPs", quoted(s.ClusterIPs))
	}
	e.list("externalIPs", quoted(s.ExternalIPs))
	if s.TakeHostPorts {
		e.key("takeHostPorts", "true")
	}
	if !keep && len(s.LoadBalancerIPs) > 0 {
		e.list("vips", each(s.LoadBalancerIPs, encodeVIP))
		if hidesClients(s) {
			e.key("keepClientAddress", "false")
		}
	}
	e.list("loadBalancerSourceRanges", quoted(s.SourceRanges))
	if e.mark(s) {
		return
	}
	if len(s.Ports) == 1 && plain(s.Ports[0]) {
		e.key("port", strconv.Itoa(int(s.Ports[0].Port)))
		return
	}
	e.list("ports", each(unnamed(s.Ports), func(p sources.Port) string {
		if plain(p) {
			return strconv.Itoa(int(p.Port))
		}
		return encodePort(p)
	}))
}

// plain reports whether a port is its number and nothing else.
func plain(p sources.Port) bool {
	return p == sources.Port{Protocol: sources.TCP, Port: p.Port, TargetPort: p.Port}
}

// unnamed leaves out the names of ports that namePorts gives them again.
func unnamed(ports []sources.Port) []sources.Port {
	short := slices.Clone(ports)
	for i := range short {
		short[i].Name = ""
	}
	given := slices.Clone(short)
	namePorts(given)
	for i, p := range ports {
		if p.Name != given[i].Name {
			short[i].Name = p.Name
		}
	}
	return short
}

// A tableWriter writes an inline table.
type tableWriter struct{ pairs []string }

func (t *tableWriter) key(name, value string) { t.pairs = append(t.pairs, name+" = "+value) }

func (t *tableWriter) text(name, value string) {
	if value != "" {
		t.key(name, fields.Text(value))
	}
}

func (t *tableWriter) number(name string, n uint64) {
	if n != 0 {
		t.key(name, strconv.FormatUint(n, 10))
	}
}

func (t *tableWriter) String() string { return "{ " + strings.Join(t.pairs, ", ") + " }" }

func encodeVIP(v sources.VIP) string {
	if v.Mode == sources.IPModeDefault {
		return fields.Text(v.Addr.String())
	}
	var t tableWriter
	t.text("ip", v.Addr.String())
	t.text("ipMode", string(v.Mode))
	return t.String()
}

func encodePort(p sources.Port) string {
	var t tableWriter
	t.text("name", p.Name)
	t.number("port", uint64(p.Port))
	if p.TargetPort != p.Port {
		t.number("targetPort", uint64(p.TargetPort))
	}
	t.number("nodePort", uint64(p.NodePort))
	if p.Protocol != sources.TCP {
		t.text("protocol", p.Protocol.String())
	}
	return t.String()
}

func (e *encoder) endpoint(p *sources.Endpoint, ports []sources.Port) string {
	return e.written("address", p.Addr.String(), p, p.Weight != sources.DefaultWeight, ports)
}

// name writes a DNS name in the place of endpoints.
func (e *encoder) name(n *sources.Name, ports []sources.Port) string {
	if n.SRV {
		return e.written("srv", n.Host, &n.Endpoint, n.Weighted, nil)
	}
	return e.written("name", n.Host, &n.Endpoint, n.Weight != sources.DefaultWeight, ports)
}

// written writes an endpoint whose place is the value of a key.
func (e *encoder) written(key, place string, p *sources.Endpoint, weighted bool, ports []sources.Port) string {
	var t, own tableWriter
	t.text(key, place)
	alone := place // what says all if the table has no more than the address or name
	for _, at := range p.Ports {
		i := slices.IndexFunc(ports, func(q sources.Port) bool { return q.Name == at.Name && q.Protocol == at.Protocol })
		switch {
		case i < 0 || ports[i].TargetPort == at.Port:
		case e.words == EdgeWords && len(ports) == 1:
			t.number("port", uint64(at.Port))
			alone = net.JoinHostPort(place, strconv.Itoa(int(at.Port)))
		default:
			own.key(fields.KeyText(at.Name), strconv.Itoa(int(at.Port)))
		}
	}
	where := len(t.pairs)
	if own.pairs != nil {
		t.key("ports", own.String())
	}
	if weighted {
		t.key("weight", strconv.FormatUint(uint64(p.Weight), 10))
	}
	if !p.Ready {
		t.key("ready", "false")
	}
	if p.Serving != p.Ready {
		t.key("serving", strconv.FormatBool(p.Serving))
	}
	if p.Terminating {
		t.key("terminating", "true")
	}
	t.text("nodeName", p.NodeName)
	t.text("zone", p.Zone)
	if p.Backup {
		t.key("backup", "true")
	}
	if !e.oneLimit {
		encodeLimits(t.key, p)
	}
	if p.Unchecked {
		t.text("healthCheck", checkOff)
	}
	if len(t.pairs) == where && key != "srv" {
		return fields.Text(alone)
	}
	return t.String()
}

// quoted returns each value as a string of TOML.
func quoted[T fmt.Stringer](values []T) []string {
	return each(values, func(v T) string { return fields.Text(v.String()) })
}

func each[T any](values []T, f func(T) string) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = f(v)
	}
	return list
}

func textOf(s string) string { return fields.Text(s) }

func durationText(d time.Duration) string { return fields.Text(fields.Duration.Write(d)) }

func array(values []string) string { return "[" + strings.Join(values, ", ") + "]" }

// encodeCheck returns a health check as a string where that says all of it, else as a table.
func encodeCheck(c *sources.HealthCheck) string {
	var t tableWriter
	encodeProbe(&t, &c.Probe)
	encodeTuning(&t, c)
	short := shortKeys[c.Probe.Type]
	switch {
	case len(t.pairs) == 1:
		return fields.Text(string(c.Probe.Type))
	case len(t.pairs) == 2 && short != "":
		if value, ok := strings.CutPrefix(t.pairs[1], short+` = "`); ok {
			return `"` + string(c.Probe.Type) + ":" + value
		}
	}
	return t.String()
}

func encodeProbe(t *tableWriter, p *sources.Probe) {
	t.text("type", string(p.Type))
	t.number("port", uint64(p.Port))
	t.text("port", p.PortName)
	if p.Path != "/" {
		t.text("path", p.Path)
	}
	t.text("host", p.Host)
	if p.Method != "GET" {
		t.text("method", p.Method)
	}
	if p.Headers != "" {
		var headers tableWriter
		for line := range strings.SplitSeq(p.Headers, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			headers.key(fields.KeyText(name), fields.Text(value))
		}
		t.key("headers", headers.String())
	}
	if p.ExpectStatus != "" && p.ExpectStatus != "200-399" {
		t.key("expectStatus", array(each(strings.Split(p.ExpectStatus, ","), textOf)))
	}
	t.text("expectBody", p.ExpectBody)
	t.bytes("send", p.Send, p.Type)
	t.bytes("expect", p.Expect, p.Type)
	if p.Query != "." {
		t.text("query", p.Query)
	}
	if p.RecordType != "A" {
		t.text("recordType", p.RecordType)
	}
	t.text("service", p.Service)
	for _, flag := range []struct {
		name string
		set  bool
	}{{"tls", p.TLS}, {"verify", p.Verify}} {
		if flag.set {
			t.key(flag.name, "true")
		}
	}
	t.text("serverName", p.ServerName)
	t.text("caFile", p.CAFile)
	t.text("command", p.Command)
	if p.Args != "" {
		t.key("args", array(each(strings.Split(p.Args, "\x00"), textOf)))
	}
	if p.OnlyZero {
		t.key("onlyZero", "true")
	}
	if p.Source.IsValid() {
		t.text("source", p.Source.String())
	}
	t.text("interface", p.Interface)
	t.number("mark", uint64(p.Mark))
	t.text("via", string(p.Via))
}

// bytes writes what may be other than text, then in hexadecimal digits.
func (t *tableWriter) bytes(name, value string, of sources.CheckType) {
	if of != sources.CheckDNS && (!utf8.ValidString(value) || strings.ContainsRune(value, 0)) {
		t.text(name+"Hex", hex.EncodeToString([]byte(value)))
		return
	}
	t.text(name, value)
}

// encodeTuning writes the keys that the service gives itself.
func encodeTuning(t *tableWriter, c *sources.HealthCheck) {
	pause := func(key sources.HealthKeys, name string, d time.Duration) {
		if !c.Unset.Has(key) {
			t.key(name, durationText(d))
		}
	}
	count := func(key sources.HealthKeys, name string, n int) {
		if !c.Unset.Has(key) {
			t.key(name, strconv.Itoa(n))
		}
	}
	word := func(key sources.HealthKeys, name, value string) {
		if !c.Unset.Has(key) {
			t.text(name, value)
		}
	}
	pause(sources.HealthInterval, "interval", c.Interval)
	pause(sources.HealthTimeout, "timeout", c.Probe.Timeout)
	count(sources.HealthFall, "fall", c.Fall)
	count(sources.HealthRise, "rise", c.Rise)
	pause(sources.HealthFastInterval, "fastInterval", c.FastInterval)
	pause(sources.HealthDownInterval, "downInterval", c.DownInterval)
	if !c.Unset.Has(sources.HealthJitter) {
		t.key("jitter", fields.Text(c.Jitter))
	}
	if c.Initial != sources.InitialKernel {
		t.text("initial", string(c.Initial))
	}
	if c.Passive {
		t.key("passive", "true")
	}
	word(sources.HealthOnDown, "onDown", string(c.OnDown))
	word(sources.HealthOnAllDown, "onAllDown", string(c.OnAllDown))
	if c.MinHealthyPercent {
		word(sources.HealthMinHealthy, "minHealthy", strconv.Itoa(c.MinHealthy)+"%")
	} else {
		count(sources.HealthMinHealthy, "minHealthy", c.MinHealthy)
	}
	pause(sources.HealthSlowStart, "slowStart", c.SlowStart)
}
