package screen_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/screen"
)

func TestColumns(t *testing.T) {
	var c screen.Columns
	c.Elastic = []int{0, 2}
	c.Heading("NAME", ">N", "STATE")
	c.Row(screen.Cell{Text: "a-service-of-many-words"}, screen.Cell{Text: "12", Right: true}, screen.Cell{Text: "no backends: no endpoints", Style: screen.Bad})
	c.Row(screen.Cell{Text: "b"}, screen.Cell{Text: "1234", Right: true}, screen.Cell{Text: "serving", Style: screen.Good})
	for _, v := range []struct {
		width   int
		colours bool
		want    string
	}{
		{0, false, `
NAME                        N  STATE
a-service-of-many-words    12  no backends: no endpoints
b                        1234  serving`},
		{50, false, `
NAME                  N  STATE
a-service-of-man…    12  no backends: no endpoints
b                  1234  serving`},
		{30, false, `
NAME           N  STATE
a-service…    12  no backends…
b           1234  serving`},
		{20, false, `
NAME           N  S…
a-service…    12  n…
b           1234  s…`},
		{9, false, `
NAME
a-servic…
b`},
		{0, true, "\n\x1b[2mNAME\x1b[0m                        \x1b[2mN\x1b[0m  \x1b[2mSTATE\x1b[0m\n" +
			"a-service-of-many-words    12  \x1b[31mno backends: no endpoints\x1b[0m\n" +
			"b                        1234  \x1b[32mserving\x1b[0m"},
	} {
		got := strings.Join(c.Lines(v.width, v.colours), "\n")
		if want := strings.TrimPrefix(v.want, "\n"); got != want {
			t.Errorf("width %d:\n%s\nwant\n%s", v.width, got, want)
		}
	}
}

func TestAmounts(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 999: "999", 1000: "1.0k", 12345: "12.3k", 99949: "99.9k", 99950: "100k", 999499: "999k", 999500: "1.0M",
		123456789: "123M", 18446744073709551615: "18.4E",
	} {
		if got := screen.Count(n); got != want {
			t.Errorf("Count(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1.0k", 1 << 20: "1.0M", 1536 << 20: "1.5G"} {
		if got := screen.Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 0.04: "0.0", 0.26: "0.3", 9.94: "9.9", 9.96: "10", 1234: "1.2k"} {
		if got := screen.Rate(n, 1000); got != want {
			t.Errorf("Rate(%v) = %s, want %s", n, got, want)
		}
	}
}

func TestClean(t *testing.T) {
	const text = "iptables-restore: line 3\nfailed\x1b[2J\a é"
	if got, want := screen.Clean(text), "iptables-restore: line 3 failed?[2J? é"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 61*time.Millisecond + 300*time.Microsecond: "61ms", 59 * time.Second: "59s", time.Minute: "1m",
		185 * time.Second: "3m5s", 130 * time.Minute: "2h10m", 48 * time.Hour: "2d", 51 * time.Hour: "2d3h",
	} {
		if got := screen.Age(d); got != want {
			t.Errorf("Age(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text          string
		width, indent int
		want          []string
	}{
		{"short", 10, 2, []string{"short"}},
		{"any width is all right", 0, 2, []string{"any width is all right"}},
		{"one two three four", 9, 2, []string{"one two", "  three", "  four"}},
		{"a-very-long-word and more", 10, 2, []string{"a-very-lon", "  g-word", "  and more"}},
		{"ééé ééé", 3, 0, []string{"ééé", "ééé"}},
	} {
		if got := screen.Wrap(c.text, c.width, c.indent); !slices.Equal(got, c.want) {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}
