package sources

import (
	"net/netip"
	"time"
)

// CheckType is what a health check does with an endpoint.
type CheckType string

// The types.
const (
	CheckTCP   CheckType = "tcp"   // connect; with Send or Expect, also talk
	CheckHTTP  CheckType = "http"  // one HTTP/1.1 request
	CheckHTTPS CheckType = "https" // likewise over TLS
	CheckTLS   CheckType = "tls"   // a TLS handshake
	CheckDNS   CheckType = "dns"   // one query, over UDP
	CheckGRPC  CheckType = "grpc"  // grpc.health.v1.Health/Check
	CheckUDP   CheckType = "udp"   // send, and wait for an answer or a refusal
	CheckPing  CheckType = "ping"  // ICMP echo
	CheckExec  CheckType = "exec"  // run a program
	CheckAgent CheckType = "agent" // read the text of an HAProxy agent: "up", "drain", "75%"
)

// ExecUser runs the programs of checks of type exec, unless svcproxy.toml names another user
// (health.execUser). The packages make it.
const ExecUser = "svcproxy-check"

// ExecDirs are the directories that may have programs of checks of type exec, unless svcproxy.toml names others
// (health.execDirs). The first is for the administrator's, the second for packages'.
func ExecDirs() []string { return []string{"/etc/svcproxy/checks", "/usr/lib/svcproxy/checks"} }

// CheckTypes lists the types, in the order in which documentation has them.
func CheckTypes() []CheckType {
	return []CheckType{CheckTCP, CheckHTTP, CheckHTTPS, CheckTLS, CheckDNS, CheckGRPC, CheckUDP, CheckPing, CheckExec,
		CheckAgent}
}

// Protocol returns what an endpoint's port must speak for a check of this type; 0 if no port is probed.
func (t CheckType) Protocol() Protocol {
	switch t {
	case CheckPing, CheckExec:
		return 0
	case CheckUDP, CheckDNS:
		return UDP
	}
	return TCP
}

// Probe is what one probe sends to an endpoint and what it expects back. Services whose probes are equal share the
// result. It is comparable: lists are joined in their canonical form.
type Probe struct {
	Type     CheckType
	Port     uint16 // 0 = the endpoint's port
	PortName string // instead of Port: the endpoint's port of that name

	// http and https
	Method, Path, Host string
	Headers            string // "Name: value" lines, sorted, joined by "\n"
	ExpectStatus       string // "200-299,404"; "" = 200-399
	ExpectBody         string // must be in the first 4 KiB of the body

	// tcp and udp
	Send, Expect string // bytes; expected ones must be in the first 4 KiB of the answer

	// dns
	Query, RecordType string

	// grpc
	Service string

	// https, tls, grpc over TLS
	TLS        bool // of grpc
	Verify     bool // the certificate's chain and name, against CAFile or the system's
	ServerName string
	CAFile     string

	// exec
	Command  string // an absolute path
	Args     string // joined by "\x00"
	OnlyZero bool   // every exit status but 0 is a failure

	// Where probes are sent from. Zero values leave it to the kernel.
	Source    netip.Addr
	Interface string
	Mark      uint32

	Via Via
	Way Way // with ViaVIP, filled in by Checks

	Timeout time.Duration
}

// Via says where a probe goes.
type Via string

// ViaDirect probes the endpoint's address. ViaVIP also asks whether the endpoint answers for the service's
// VIP, which only endpoints without masquerading do.
const (
	ViaDirect Via = "" // "direct" in files
	ViaVIP    Via = "vip"
)

// Way is how packets for a VIP reach an endpoint on this node. The zero value is a probe of the endpoint's
// address alone.
type Way struct {
	VIP4, VIP6 netip.Addr
	Forward    Forward // not Masquerade
	GUEPort    uint16
}

// VIP returns the VIP of an endpoint's family; invalid if the VIP is not asked for.
func (w Way) VIP(endpoint netip.Addr) netip.Addr {
	if !w.Forward.Unchanged() {
		return netip.Addr{}
	}
	if endpoint.Is6() {
		return w.VIP6
	}
	return w.VIP4
}

// Initial is the state of an endpoint before its first result.
type Initial string

// The initial states. InitialKernel keeps what the kernel serves, and takes an unknown endpoint for up.
const (
	InitialKernel Initial = "kernel"
	InitialUp     Initial = "up"
	InitialDown   Initial = "down"
)

// OnDown is what happens to the connections of an endpoint that goes down.
type OnDown string

// The reactions: keep them until they end, or cut them.
const (
	DownDrain OnDown = "drain"
	DownCut   OnDown = "cut"
)

// OnAllDown is what happens when no endpoint is up.
type OnAllDown string

// The reactions: serve all endpoints as if up, because the checker is the likelier culprit, or serve none.
const (
	AllDownOpen   OnAllDown = "open"
	AllDownClosed OnAllDown = "closed"
)

// HealthCheck is a service's health check, defaults filled in.
type HealthCheck struct {
	Probe Probe

	Interval     time.Duration // between probes of an endpoint whose state is settled and up
	FastInterval time.Duration // after a first result that differs, until decided
	DownInterval time.Duration // while down
	Jitter       float64       // fraction of the interval by which a probe comes earlier at most, 0 to 0.5
	Fall, Rise   int           // results in a row that change the state

	Initial   Initial
	OnDown    OnDown
	OnAllDown OnAllDown
	// MinHealthy: with fewer endpoints up, all that are not drained get connections. It is a number of endpoints, or
	// a percentage of them if MinHealthyPercent.
	MinHealthy        int
	MinHealthyPercent bool
	Passive           bool          // an endpoint that answers none of its clients counts as down, too
	SlowStart         time.Duration // over which a new endpoint gets its full weight; 0 = at once

	// Unset are the keys that the service does not give. A source fills in the defaults of DefaultHealthCheck, and
	// OnNode the node's.
	Unset HealthKeys
}
