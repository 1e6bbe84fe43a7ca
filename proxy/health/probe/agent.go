package probe

import (
	"bytes"
	"io"
	"math"
	"strconv"
	"strings"
)

const (
	// maxPercent bounds the weight that an agent can ask for, in percent of the configured one, as HAProxy does
	// (server_parse_weight_change_request).
	maxPercent = 25600
	// maxLine bounds an agent's line, in bytes: HAProxy's tune.bufsize.
	maxLine = 16 << 10
)

// agent reads one line of an agent of HAProxy: words such as "75%", "drain", "up".
func (a *attempt) agent() Result {
	return a.talk(func(c *conn) Result {
		line, whole, err := readLine(c)
		a.done("ended")
		switch {
		case err != nil:
			return failure(err, "answer")
		case !whole:
			return result(OK, "ignored: no end of the line") // HAProxy: "Ignoring incomplete line from agent"
		}
		return judgeAgent(string(line))
	})
}

// readLine returns what comes before the first CR or LF. It is not whole if the connection ends before that, or maxLine
// is reached, or if it has a NUL, with which a line ends for HAProxy.
func readLine(r io.Reader) (line []byte, whole bool, err error) {
	var part [512]byte
	for len(line) < maxLine {
		got, err := r.Read(part[:min(len(part), maxLine-len(line))])
		from := len(line)
		line = append(line, part[:got]...)
		if end := bytes.IndexAny(line[from:], "\r\n\x00"); end >= 0 {
			return line[:from+end], line[from+end] != 0, nil
		}
		if err == io.EOF && len(line) > 0 {
			break
		}
		if err != nil {
			return nil, false, err
		}
	}
	return line, false, nil
}

// judgeAgent returns the result of an agent's line, as HAProxy 2.6 reads it (tcpcheck_agent_expect_reply).
// Words end at spaces, tabs and commas, case does not matter, and the last word of each kind counts. A word
// that begins with "#" begins an explanation. Words that are not known change nothing: the first one is the
// result's detail. An answer without a word about health is OK, and does not speak.
func judgeAgent(line string) Result {
	words, reason := splitAgent(line)
	r, health, percent, unknown := Result{Outcome: OK}, "", "", ""
	for _, word := range words {
		switch known := strings.ToLower(word); {
		case known == "up", known == "down", known == "stopped", known == "fail":
			health = known
		case known == "ready":
			r.Verdict = Ready
		case known == "drain":
			r.Verdict = Drain
		case known == "maint":
			r.Verdict = Maint
		case word[0] >= '0' && word[0] <= '9' && strings.Contains(word, "%"):
			percent = word
		case strings.HasPrefix(known, "maxconn:"): // svcproxy does not limit connections
		case unknown == "":
			unknown = word
		}
	}
	if percent != "" {
		if r.Percent, r.HasPercent = percentOf(percent); !r.HasPercent && unknown == "" {
			unknown = percent
		}
	}
	r.Speaks = health != ""
	switch {
	case r.Speaks && health != "up":
		r.Outcome, r.Detail = Agent, printable(strings.TrimSpace(health+" "+reason))
	case unknown != "":
		r.Detail = printable("unknown word " + unknown)
	}
	return r
}

// splitAgent returns the words of a line, and the explanation after the first word that begins with "#".
func splitAgent(line string) (words []string, reason string) {
	const separators = " \t,"
	for {
		line = strings.TrimLeft(line, separators)
		if line == "" || line[0] == '#' {
			return words, strings.Trim(strings.TrimPrefix(line, "#"), " \t")
		}
		end := strings.IndexAny(line, separators)
		if end < 0 {
			end = len(line)
		}
		words, line = append(words, line[:end]), line[end:]
	}
}

// percentOf returns the number before the "%" that ends a word; false if there is something else.
func percentOf(word string) (int, bool) {
	digits, ok := strings.CutSuffix(word, "%")
	n, err := strconv.ParseUint(digits, 10, 64)
	if n == math.MaxUint64 { // out of range
		err = nil
	}
	return int(min(n, maxPercent)), ok && err == nil
}
