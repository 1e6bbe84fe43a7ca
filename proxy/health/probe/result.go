package probe

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// maxDetail bounds Result.Detail, in bytes. Parts of it come from the endpoint.
const maxDetail = 120

// Result is what one probe found.
type Result struct {
	Outcome  Outcome
	Code     int           // with Status, DNS, GRPC and Exec
	Detail   string        // one printable line of 120 bytes at most; may be empty
	Duration time.Duration // from the start of the probe to its end
	Late     time.Duration // from when the runner had to start the probe to when it did

	// A percentage of the configured weight, from exec and agent; 100 leaves it as it is.
	Percent    int
	HasPercent bool

	Unsent  bool      // with Void: this node has no route to the endpoint
	Verdict Verdict   // from agent
	Speaks  bool      // an agent said "up", with OK, or that the server is down, with Agent
	Expires time.Time // when the server's certificate expires; zero if there was none
	Warning string    // what is odd about a server that is OK: like Detail

	// unended is closed when the program of an exec probe has ended that could not be killed; nil if it has.
	unended <-chan struct{}
}

// String returns what an operator reads: "ok", "refused", "status 503", "tls certificate has expired",
// "timeout: connect".
func (r Result) String() string {
	switch r.Outcome {
	case OK:
		if r.Warning != "" {
			return "ok: " + r.Warning
		}
	case Status:
		return "status " + strconv.Itoa(r.Code)
	case Exec:
		if r.Detail == "" {
			return "exec " + strconv.Itoa(r.Code)
		}
		return "exec " + strconv.Itoa(r.Code) + ": " + r.Detail
	case TLS, DNS, GRPC:
		return r.Outcome.String() + " " + r.Detail
	}
	if r.Detail == "" {
		return r.Outcome.String()
	}
	return r.Outcome.String() + ": " + r.Detail
}

// Void reports whether the result says nothing about the endpoint.
func (r Result) Void() bool { return r.Outcome == Void }

// result returns a result with a detail of bounded length.
func result(o Outcome, detail string) Result {
	return Result{Outcome: o, Detail: printable(detail)}
}

// printable returns the first line of s without control characters, cut to maxDetail bytes.
func printable(s string) string {
	s = strings.TrimSpace(s[:min(len(s), 4*maxDetail)])
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		s = s[:i]
	}
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if len(s) <= maxDetail {
		return s
	}
	// Map made the text valid UTF-8: cut at the start of a rune.
	end := maxDetail
	for s[end]&0xc0 == 0x80 {
		end--
	}
	return s[:end]
}
