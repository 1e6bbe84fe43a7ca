package file

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/textproto"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/sources/fields"

	"github.com/svcproxy/svcproxy/sources"
)

// maxAnswer is how much of an answer a probe reads, in bytes: more could never be found.
const maxAnswer = 4 << 10

// maxList bounds the elements of a list and the keys of a table in a check.
const maxList = 100

// readCheckPort reads a number, or the name of a port. Validate knows the names.
func readCheckPort(c *draftCheck, n node) (err error) {
	if name, ok := n.Text(); ok {
		if name == "" {
			return errors.New("is empty: give a number, or the name of a port of the service")
		}
		c.Probe.PortName, err = fields.String.Read(n)
		return err
	}
	if _, ok := n.Integer(); !ok {
		return n.Mistyped("a port number, or the name of a port")
	}
	c.Probe.Port, err = fields.Port.Read(n)
	return err
}

// hexBytes is a string of bytes in hexadecimal digits, which may have spaces between.
var hexBytes = fields.Type[string]{
	Kind: fields.KindString,
	Read: func(n node) (string, error) {
		s, ok := n.Text()
		if !ok {
			return "", n.Mistyped("a string of hexadecimal digits")
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
		if err != nil {
			return "", fmt.Errorf(`%q has other than pairs of hexadecimal digits, such as "0d0a"`, s)
		}
		return string(b), checkAnswer(string(b))
	},
}

func checkAnswer(s string) error {
	if len(s) > maxAnswer {
		return fmt.Errorf("has %d bytes, at most %d are possible", len(s), maxAnswer)
	}
	return nil
}

// checkPath lets a path through that can stand in the first line of a request.
func checkPath(s string) error {
	switch {
	case !strings.HasPrefix(s, "/"):
		return fmt.Errorf(`%q does not begin with "/"`, s)
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return fmt.Errorf("%q has spaces or characters other than ASCII: write %%20 and the like", s)
	}
	return checkAnswer(s)
}

// checkHost lets a host name or an address through, with or without a port.
func checkHost(s string) error {
	if s == "" || len(s) > 260 || strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`/\@"`, r)
	}) {
		return fmt.Errorf(`%q cannot be the name of a host, such as "www.example.org"`, s)
	}
	return nil
}

func checkQuery(s string) error {
	labels := strings.Split(strings.TrimSuffix(s, "."), ".")
	wrong := func(l string) bool {
		return l == "" || len(l) > 63 || strings.ContainsFunc(l, func(r rune) bool { return r <= ' ' || r >= 0x7f })
	}
	if s != "." && (len(s) > 254 || slices.ContainsFunc(labels, wrong)) {
		return fmt.Errorf(`%q cannot be a name of the DNS, such as "example.org"`, s)
	}
	return nil
}

func checkLine(s string) error {
	if len(s) > 1000 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%q is longer than 1000 bytes, or has control characters", s)
	}
	return nil
}

func checkFile(s string) error {
	if !filepath.IsAbs(s) || strings.Contains(s, "\x00") {
		return fmt.Errorf("%q: an absolute path is needed", s)
	}
	return nil
}

// checkInterface lets the names through that Linux does (dev_valid_name).
func checkInterface(s string) error {
	if s == "" || s == "." || s == ".." || len(s) > 15 || strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r == '/' || r == ':' || r >= 0x7f
	}) {
		return fmt.Errorf("%q cannot be the name of an interface", s)
	}
	return nil
}

// stringList reads an array of strings.
func stringList(n node, of string) ([]string, error) {
	length, ok := n.Len()
	if !ok {
		return nil, n.Mistyped("an array of " + of)
	}
	if length > maxList {
		return nil, fmt.Errorf("has %d elements, at most %d are possible", length, maxList)
	}
	words := make([]string, length)
	for i := range words {
		if words[i], ok = n.Elem(i).Text(); !ok {
			return nil, fmt.Errorf("has an element that is %s: an array of %s in quotes is needed", fields.TypeOf(n.Elem(i).V),
				of)
		}
	}
	return words, nil
}

func readArgs(c *draftCheck, n node) error {
	args, err := stringList(n, "strings")
	if err != nil {
		return err
	}
	for _, a := range args {
		if strings.Contains(a, "\x00") {
			return errors.New("has an argument with a zero byte")
		}
	}
	c.Probe.Args = strings.Clone(strings.Join(args, "\x00")) // Join returns a single one as it is, in the text of the file
	return checkAnswer(c.Probe.Args)
}

// readStatus reads status codes and ranges, and sorts them.
func readStatus(c *draftCheck, n node) error {
	given, err := stringList(n, "status codes and ranges")
	if err != nil {
		return err
	}
	if len(given) == 0 {
		return errors.New("is empty: no answer would be good")
	}
	type span struct{ low, high int }
	spans := make([]span, len(given))
	for i, s := range given {
		first, last, isRange := strings.Cut(s, "-")
		if !isRange {
			last = first
		}
		low, err := strconv.Atoi(first)
		high, err2 := strconv.Atoi(last)
		if len(first) != 3 || len(last) != 3 || err != nil || err2 != nil || low < 100 || high > 599 || low > high {
			return fmt.Errorf(`has %q: a status from 100 to 599, or a range such as "200-299", is needed`, s)
		}
		spans[i] = span{low, high}
	}
	sources.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(a.high, b.high)) })
	var list []string
	for _, s := range slices.Compact(spans) {
		if s.low == s.high {
			list = append(list, strconv.Itoa(s.low))
		} else {
			list = append(list, fmt.Sprintf("%d-%d", s.low, s.high))
		}
	}
	c.Probe.ExpectStatus = strings.Join(list, ",")
	return nil
}

// ourHeaders are those that the prober writes itself.
var ourHeaders = []string{"Connection", "Content-Length", "Host", "Transfer-Encoding"}

// readHeaders reads a table of headers into sorted lines.
func readHeaders(c *draftCheck, n node) error {
	if !n.IsTable() {
		return n.Mistyped(`a table such as { Accept = "text/plain" }`)
	}
	if n.Size() > maxList {
		return fmt.Errorf("has %d keys, at most %d are possible", n.Size(), maxList)
	}
	lines := map[string]string{} // by the name in HTTP's usual letters
	for _, name := range n.Keys() {
		usual := textproto.CanonicalMIMEHeaderKey(name)
		header, _ := n.Under(name)
		value, isText := header.Text()
		switch _, twice := lines[usual]; {
		case !isToken(name):
			return fmt.Errorf("has %q, which cannot be the name of a header", name)
		case slices.Contains(ourHeaders, usual):
			return fmt.Errorf("has %s, which the probe sets itself%s", usual,
				map[bool]string{true: ": see host"}[usual == "Host"])
		case twice:
			return fmt.Errorf("has %s twice", usual)
		case !isText:
			return fmt.Errorf("has %s = %s: a string is needed", name, fields.TypeOf(header.V))
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return fmt.Errorf("has %s with control characters", name)
		}
		lines[usual] = usual + ": " + strings.TrimSpace(value)
	}
	c.Probe.Headers = strings.Join(slices.Sorted(maps.Values(lines)), "\n")
	return checkAnswer(c.Probe.Headers)
}

// isToken reports whether s is a token of RFC 9110, as the names of headers are.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
			!strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
