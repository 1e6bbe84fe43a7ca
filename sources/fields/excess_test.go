package fields

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
)

// TestExcess: a text beyond a limit is refused at the line where it exceeds the limit, before the library takes memory
// and time for it.
func TestExcess(t *testing.T) {
	const n = 1_000_001
	keys := func() string {
		var b strings.Builder
		b.WriteString("x = {")
		for i := range n {
			fmt.Fprintf(&b, "k%d=1,", i)
		}
		return b.String() + "}"
	}
	for name, test := range map[string]struct {
		text string
		line int
		want string
	}{
		"brackets":       {"x = " + strings.Repeat("[", n), 1, "nested more than 100 deep"},
		"inline tables":  {"\nx = " + strings.Repeat("{a=", n), 2, "nested more than 100 deep"},
		"both":           {"x = " + strings.Repeat("[{a=", n), 1, "nested more than 100 deep"},
		"dotted key":     {strings.Repeat("a.", n) + "a = 1", 1, "nested more than 100 deep"},
		"dotted header":  {"\n\n[" + strings.Repeat("a.", n) + "a]", 3, "nested more than 100 deep"},
		"elements":       {"x = [" + strings.Repeat("1,", n) + "]", 1, "more than 500000 keys and values"},
		"keys":           {keys(), 1, "more than 500000 keys and values"},
		"tables":         {strings.Repeat("[[a]]\n", n/2+1), n/2 + 1, "more than 500000 keys and values"},
		"lines":          {strings.Repeat("\n", n), 1_000_000, "more than 1000000 lines"},
		"duplicate keys": {strings.Repeat("a = 1\n", n/2), 102, "more than 100 duplicate keys"},
	} {
		_, _, mistakes, ok := Parse([]byte(test.text))
		if ok || len(mistakes) == 0 || len(mistakes) > maxDuplicates+1 {
			t.Errorf("%s: %v, %d mistakes", name, ok, len(mistakes))
			continue
		}
		if last := mistakes[len(mistakes)-1]; last.Line != test.line || !strings.HasPrefix(last.Error(), test.want) {
			t.Errorf("%s: %+v", name, last)
		}
	}
}

// TestNoText: text that is not UTF-8 has an error of its own, with the line of the first such byte.
func TestNoText(t *testing.T) {
	const toml = "a = 1\nb = \"x\"\n"
	wide := func(bom string, order [2]int) string {
		b := []byte(bom)
		for _, u := range utf16.Encode([]rune(toml)) {
			bytes := [2]byte{byte(u >> 8), byte(u)}
			b = append(b, bytes[order[0]], bytes[order[1]])
		}
		return string(b)
	}
	for text, want := range map[string]string{
		wide("\xff\xfe", [2]int{1, 0}):         "1 not UTF-8 but UTF-16: TOML files must be UTF-8",
		wide("\xfe\xff", [2]int{0, 1}):         "1 not UTF-8 but UTF-16: TOML files must be UTF-8",
		wide("", [2]int{1, 0}):                 "1 not TOML: a zero byte, as in UTF-16 or in no text at all: TOML files must be UTF-8",
		toml + "c = \"\xe9t\xe9\"\n":           "3 not UTF-8, at byte 0xe9: TOML files must be",
		toml + "\x00\x00\x00":                  "3 not TOML: a zero byte, as in UTF-16 or in no text at all: TOML files must be UTF-8",
		"\x1f\x8b\x08\x00" + toml:              "1 not UTF-8, at byte 0x8b: TOML files must be",
		toml + "c = 1\rd = 2\r":                "3 not TOML: a carriage return without a line feed: lines end in LF, or CR LF",
		strings.ReplaceAll(toml, "\n", "\r"):   "1 not TOML: a carriage return without a line feed: lines end in LF, or CR LF",
		"\xef\xbb\xbf" + toml:                  "",
		strings.ReplaceAll(toml, "\n", "\r\n"): "",
	} {
		_, _, mistakes, ok := Parse([]byte(text))
		got := ""
		for _, m := range mistakes {
			got += fmt.Sprintln(m.Line, m)
		}
		if ok != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%q: %v\n%swant\n%s", text, ok, got, want)
		}
	}
}
