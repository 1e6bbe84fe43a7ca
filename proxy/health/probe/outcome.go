package probe

// Outcome is the class of a result. The list is closed, so an outcome can label a metric.
type Outcome uint8

// The outcomes. Only OK speaks for the endpoint, and Void says nothing about it.
const (
	Void        Outcome = iota // the probe failed on our side: no file descriptor, no permission, no time to run
	OK                         // the endpoint answered as expected
	Refused                    // the port is closed
	Timeout                    // no connection or no full answer within the timeout
	Unreachable                // the network has no way to the address
	Reset                      // the endpoint reset the connection
	Closed                     // the endpoint closed the connection before it had answered
	Malformed                  // the answer breaks its protocol or is too long
	Status                     // the HTTP status is not expected; see Code
	Body                       // the HTTP body lacks the expected text
	Answer                     // the answer lacks the expected bytes
	TLS                        // the handshake failed, or the certificate is not valid
	DNS                        // the server answered SERVFAIL or REFUSED; Code has the RCODE
	GRPC                       // the service is not SERVING, or the call failed; Code has the gRPC status
	Exec                       // the program failed; Code has its exit status
	Agent                      // the agent said that the server is down
)

var outcomes = [...]string{
	Void: "void", OK: "ok", Refused: "refused", Timeout: "timeout", Unreachable: "unreachable", Reset: "reset",
	Closed: "closed", Malformed: "malformed", Status: "status", Body: "body", Answer: "answer", TLS: "tls",
	DNS: "dns", GRPC: "grpc", Exec: "exec", Agent: "agent",
}

// Outcomes lists the outcomes in the order of their values.
func Outcomes() []Outcome {
	all := make([]Outcome, len(outcomes))
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}

// String returns one lower-case word.
func (o Outcome) String() string {
	if int(o) < len(outcomes) {
		return outcomes[o]
	}
	return "unknown"
}

// Verdict is what an agent wants done with its server.
type Verdict uint8

// The verdicts. The zero value asks for nothing.
const (
	NoVerdict Verdict = iota
	Ready             // cancels Drain and Maint
	Drain             // no new connections
	Maint             // no connections at all
)

var verdicts = [...]string{NoVerdict: "", Ready: "ready", Drain: "drain", Maint: "maint"}

// String returns the agent's word for it.
func (v Verdict) String() string {
	if int(v) < len(verdicts) {
		return verdicts[v]
	}
	return "unknown"
}
