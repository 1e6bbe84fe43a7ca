package condition

// Kind is what sort of thing is wrong.
type Kind string

// The kinds of conditions.
const (
	// Unkept: a file in stateDir could not be written. The subject is the file.
	Unkept Kind = "unkept"
	// Unpublished: announce.file could not be written. The subject is "announce.file".
	Unpublished Kind = "unpublished"
	// Displaced: a service is served where a program of this host listens. The subject is the address and port.
	Displaced Kind = "displaced"
	// Unlistened: it cannot be read which programs of this host listen.
	Unlistened Kind = "unlistened"
	// OtherRules: rules of ours stay in the back end of iptables that is not written. The subject is its tool.
	OtherRules Kind = "otherRules"
	// CheckBlind: the probes of a health check tell nothing, for a reason of this node's. The subject is its type and
	// the reason.
	CheckBlind Kind = "checkBlind"
	// ConntrackFull: connection tracking drops packets, or is about to. The subject is empty.
	ConntrackFull Kind = "conntrackFull"
	// RelayFull: the relay of mode userspace has no room for connections or flows. The subject is what it lacks.
	RelayFull Kind = "relayFull"
	// MeterFull: a limit for each client has no room for more clients. The subject is the service.
	MeterFull Kind = "meterFull"
	// Unwatched: files or addresses are polled, as the kernel does not tell of changes. The subject is what is polled.
	Unwatched Kind = "unwatched"
	// Silent: an endpoint does not answer its clients. The subject is the endpoint.
	Silent Kind = "silent"
	// CheckLate: probes of a service wait for a place for several of their intervals. The subject is the service.
	CheckLate Kind = "checkLate"
)

// row is what there is to say of a kind.
type row struct {
	kind Kind
	// meaning says what it does to the node, and todo what an operator can do about it if Set gives no hint.
	meaning, todo string
}

// kinds is the only list of kinds. Whatever shows conditions reads it, in this order: the worst first.
var kinds = []row{
	{OtherRules, "old rules in the other back end of iptables still translate and refuse packets",
		"install the tools of both back ends: the next sync removes the rules"},
	{Unpublished, "routing daemons read old facts: announce.file cannot be written",
		"make the directory of announce.file writable for the user of svcproxy"},
	{ConntrackFull, "connection tracking is full or nearly so: new connections are lost",
		"raise net.netfilter.nf_conntrack_max by sysctl -w"},
	{RelayFull, "new connections wait or are reset: svcproxy has no room",
		"raise LimitNOFILE= of the unit, and fs.file-max if the system has none left"},
	{MeterFull, "a limit for each client has no room: new clients are not limited, or are refused",
		"deny the networks that they come from, or leave perClient out of limits"},
	{Silent, "clients of an endpoint wait in vain: replies do not come back through this node",
		"start it if its host is down; else make this node its gateway, or set keepClientAddress = false; no firewall of " +
			"it may drop clients"},
	{CheckBlind, "a health check tells nothing: last states count",
		"correct what the reason names on this node"},
	{CheckLate, "health checks of a service run late: its states are old",
		"make its timeouts shorter and intervals longer"},
	{Displaced, "a program gets no new connections: a service has its port",
		"stop the program, or remove the port from the service; takeHostPorts = true in the service if it is meant"},
	{Unlistened, "services may take ports of programs: listeners cannot be read",
		"modprobe -a inet_diag tcp_diag udp_diag"},
	{Unwatched, "changes are served up to 10 s late: they are polled",
		"raise fs.inotify.max_user_instances and max_user_watches by sysctl -w, and LimitNOFILE= of the unit"},
	{Unkept, "a restart would use older content: a file in stateDir cannot be written",
		"make room in stateDir (df -h, df -i), or make it writable for the user of svcproxy"},
}

// Kinds lists every kind, the worst first.
func Kinds() []Kind {
	list := make([]Kind, len(kinds))
	for i := range kinds {
		list[i] = kinds[i].kind
	}
	return list
}

// find returns the row of a kind and its place in the list.
func (k Kind) find() (row, int) {
	for i := range kinds {
		if kinds[i].kind == k {
			return kinds[i], i
		}
	}
	return row{kind: k}, len(kinds)
}

// Meaning says what the condition does to the node.
func (k Kind) Meaning() string {
	r, _ := k.find()
	return r.meaning
}
