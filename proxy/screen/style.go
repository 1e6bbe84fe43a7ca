package screen

import "os"

// Style is how a text looks.
type Style uint8

// The styles.
const (
	Plain Style = iota
	Bold
	Faint
	Good
	Warn
	Bad
)

// codes are the parameters of SGR (ECMA-48). They select colours of the terminal's
// theme, which its user can read.
var codes = [...]string{Plain: "", Bold: "1", Faint: "2", Good: "32", Warn: "33", Bad: "31"}

func (s Style) paint(text string, colours bool) string {
	if !colours || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + codes[s] + "m" + text + "\x1b[0m"
}

// Paint gives a text its style if colours are wanted.
func Paint(text string, s Style, colours bool) string { return s.paint(text, colours) }

// Colours reports whether to write to a file in colour: it is a terminal with
// colours, and NO_COLOR (no-color.org) is not set.
func Colours(f *os.File) bool {
	return Terminal(f) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
