package convert

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// haproxyWords splits a line. Quotes are as in a shell; a backslash outside of single quotes begins an escape.
func haproxyWords(text string) ([]string, error) {
	var words []string
	var b strings.Builder
	in := false
	quote := byte(0)
	text = strings.TrimRight(text, "\r\n")
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && quote != '\'':
			plain, length := unescaped(text[i:])
			b.WriteString(plain)
			in, i = true, i+length-1
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			b.WriteByte(c)
		case c == '"' || c == '\'':
			in, quote = true, c
		case c == '#' || c == ' ' || c == '\t':
			if in {
				words = append(words, b.String())
			}
			if c == '#' {
				return words, nil
			}
			b.Reset()
			in = false
		default:
			in = true
			b.WriteByte(c)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote is not closed")
	}
	if in {
		words = append(words, b.String())
	}
	return words, nil
}

// unescaped returns what an escape stands for, and its length. HAProxy keeps the backslash of one that it
// does not know.
func unescaped(text string) (string, int) {
	if len(text) < 2 {
		return text, len(text)
	}
	switch c := text[1]; c {
	case 'n':
		return "\n", 2
	case 'r':
		return "\r", 2
	case 't':
		return "\t", 2
	case 'x':
		if len(text) >= 4 {
			if n, err := strconv.ParseUint(text[2:4], 16, 8); err == nil {
				return string([]byte{byte(n)}), 4
			}
		}
	case '\\', ' ', '#', '"', '\'', '$':
		return string(c), 2
	}
	return `\`, 1
}

// haproxyTime reads a time such as 500, 2s or 1m; unit is that of a bare number.
func haproxyTime(text string, unit time.Duration) (time.Duration, error) {
	digits := strings.TrimRight(text, "usmhd")
	n, err := strconv.ParseUint(digits, 10, 31)
	units := map[string]time.Duration{"": unit, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
		"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	u, ok := units[text[len(digits):]]
	if err != nil || !ok {
		return 0, fmt.Errorf("want a time such as 500ms, 2s or 1m")
	}
	return time.Duration(n) * u, nil
}
