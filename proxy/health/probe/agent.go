package probe

import (
	"bytes"
	"io"
	"strconv"
	"strings"
)

// maxPercent bounds the weight that an agent can ask for, in percent of the configured one.
const maxPercent = 1000

// agent reads one line of an agent of HAProxy, see agent-check in its manual: words such as "75%", "drain", "up".
func (a *attempt) agent() Result {
	return a.talk(func(c *conn) Result {
		line, err := readLine(c)
		a.done("ended")
		if err != nil {
			return failure(err, "answer")
		}
		return judgeAgent(string(line))
	})
}

// readLine returns the first line, which may end with the connection. It reads at most maxAnswer bytes.
func readLine(r io.Reader) ([]byte, error) {
	buf, n := make([]byte, maxAnswer), 0
	for n < len(buf) {
		got, err := r.Read(buf[n:])
		n += got
		if end := bytes.IndexAny(buf[:n], "\r\n"); end >= 0 {
			return buf[:end], nil
		}
		if err == io.EOF && n > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return buf[:n], nil
}

// judgeAgent returns the result of an agent's line. As in HAProxy, words that it does not know are skipped, and what
// follows "#" explains a "down".
func judgeAgent(line string) Result {
	words, reason, _ := strings.Cut(line, "#")
	r, known := Result{Outcome: OK}, false
	for _, word := range strings.FieldsFunc(words, func(c rune) bool { return c == ' ' || c == '\t' || c == ',' }) {
		switch word = strings.ToLower(word); {
		case word == "up":
		case word == "ready":
			r.Verdict = Ready
		case word == "drain":
			r.Verdict = Drain
		case word == "maint":
			r.Verdict = Maint
		case word == "down", word == "failed", word == "stopped":
			r.Outcome, r.Detail = Agent, printable(strings.TrimSpace(word+" "+reason))
		case strings.HasPrefix(word, "maxconn:"): // known, but svcproxy does not limit connections
		case strings.HasSuffix(word, "%"):
			n, err := strconv.ParseUint(strings.TrimSuffix(word, "%"), 10, 16)
			if err != nil {
				continue
			}
			r.Percent, r.HasPercent = min(int(n), maxPercent), true
		default:
			continue
		}
		known = true
	}
	if !known {
		return result(Malformed, line)
	}
	return r
}
