package explain

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/proxy/screen"
)

// Answer says what becomes of a packet. Its JSON form is stable: releases add fields and
// never rename or remove one. Lists are never null.
type Answer struct {
	Packet string `json:"packet"` // "tcp 192.0.2.9:40000 -> 203.0.113.9:80 in eth0"
	Origin Origin `json:"origin"`
	Fate   Fate   `json:"fate"`
	// Sentence is Fate with what decided it.
	Sentence string `json:"sentence"`
	Service  string `json:"service,omitempty"` // its DisplayName, if a source has the address
	Virtual  string `json:"virtual,omitempty"` // the virtual server, as ipvsadm -S prints it
	// Steps are the packet's way, in order.
	Steps    []Step    `json:"steps"`
	Backends []Backend `json:"backends"`
}

// Origin is where a packet comes from.
type Origin string

// The origins.
const (
	FromOutside Origin = "outside"
	FromNode    Origin = "node"
	FromBackend Origin = "backend"
)

// Fate is where a packet ends.
type Fate string

// The fates.
const (
	Served    Fate = "served"
	Unsure    Fate = "unsure"
	Partly    Fate = "partly"
	Refused   Fate = "refused"
	Dropped   Fate = "dropped"
	ToNode    Fate = "node"
	Forwarded Fate = "forwarded"
	Unknown   Fate = "unknown"
)

// fates is the only list of the fates with their meaning.
var fates = screen.Terms[Fate]{
	{Word: Served, Meaning: "a backend gets it", Style: screen.Good},
	{Word: Unsure, Meaning: "a backend gets it, if rules that cannot be judged accept it; or all backends are down",
		Style: screen.Warn},
	{Word: Partly, Meaning: "some backends get it; what is sent to others is lost", Style: screen.Warn},
	{Word: Refused, Meaning: "the client gets an error at once", Style: screen.Bad},
	{Word: Dropped, Meaning: "it is lost, and the client waits", Style: screen.Bad},
	{Word: ToNode, Meaning: "the node itself gets it: no service is there", Style: screen.Bad},
	{Word: Forwarded, Meaning: "it passes through: its destination is not on this node", Style: screen.Bad},
	{Word: Unknown, Meaning: "something in its way is not understood", Style: screen.Bad},
}

// Fates lists every fate.
func Fates() []Fate { return fates.Words() }

// Meaning explains the fate to an operator.
func (f Fate) Meaning() string { return fates.Find(f).Meaning }

// Step is one step of a packet's way.
type Step struct {
	Stage Stage  `json:"stage"`
	Text  string `json:"text"`
	Wrong bool   `json:"wrong"` // it keeps packets from being served
}

// Stage is what a step is about.
type Stage string

// The stages.
const (
	stageRoute    Stage = "route"
	stageLink     Stage = "link"
	stageRule     Stage = "rule"
	stageFirewall Stage = "firewall"
	stageVirtual  Stage = "virtual"
	stageBackend  Stage = "backend"
	stageReply    Stage = "reply"

	stageConnection Stage = "conn"
)

// stages is the only list of the stages with their meaning.
var stages = screen.Terms[Stage]{
	{Word: stageRoute, Meaning: "whether the destination is local, and by what"},
	{Word: stageLink, Meaning: "whether this node answers ARP or neighbour discovery for it"},
	{Word: stageRule, Meaning: "a rule of ours that applies, with sets and entries, or a decision of the kernel"},
	{Word: stageFirewall, Meaning: "a base chain of another program that drops or rejects by default, or a rule in one " +
		"that does"},
	{Word: stageVirtual, Meaning: "the service and its virtual server"},
	{Word: stageBackend, Meaning: "one backend: weight, share, connections, route, source address, health"},
	{Word: stageReply, Meaning: "the way of the reply"},
	{Word: stageConnection, Meaning: "with --conn: what the kernel keeps of the connection"},
}

// Stages lists every stage.
func Stages() []Stage { return stages.Words() }

// Backend is one backend of the virtual server.
type Backend struct {
	Address netip.AddrPort `json:"address"`
	Name    string         `json:"name,omitempty"` // the DNS name that the address is of
	Weight  uint32         `json:"weight"`         // 1 in mode iptables, which has shares alone
	// Share is the share of new connections. It is nil if connections decide, as in
	// scheduler lc.
	Share  *float64 `json:"share,omitempty"`
	Usable bool     `json:"usable"`           // it can get a new connection
	Chosen bool     `json:"chosen,omitempty"` // a hash scheduler chooses it for the packet
	// Max is how many connections it may have before it gets no new ones; 0 = any number. Full says that it has so many.
	// It may also be full with fewer, if it had so many before.
	Max      uint32 `json:"maxConnections,omitempty"`
	Full     bool   `json:"full,omitempty"`
	Active   uint32 `json:"active"`
	Inactive uint32 `json:"inactive"`
	Health   string `json:"health,omitempty"` // in words; "" if it is not known
	// Source is the address that the packet gets; zero if it keeps its own.
	Source      netip.Addr `json:"source,omitzero"`
	Masqueraded bool       `json:"masqueraded"`
	// "direct" or "tunnel": it gets the packet unchanged; "" if its destination is translated
	Forward  string     `json:"forward,omitempty"`
	Link     string     `json:"link,omitempty"`
	Gateway  netip.Addr `json:"gateway,omitzero"`
	Neighbor string     `json:"neighbor,omitempty"` // reachable, stale, failed, ..; "" if there is no entry
	Reply    string     `json:"reply,omitempty"`    // the way of the reply, in words
	// Lost says why packets to it, or its replies, do not arrive; "" if they should.
	Lost string `json:"lost,omitempty"`

	silent   string // others get no answer of it, and this packet may
	ifReply  bool   // what the reply does depends on another host
	up, down bool   // its health checks say so
	followed bool   // the tracer followed the packet to it
	byRules  bool   // it has no weight of its own
	rejected bool   // Lost is by a rule that answers with an error
	// there is the packet on its way to it, and back the reply, as rules have left them.
	there, back known
	// scheduler is the one that hashes, if it is known what it chooses.
	scheduler string
	byVIP     bool // one backend gets all packets to the VIP, and it is not known which
}
