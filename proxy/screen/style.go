package screen

import "os"

// Style is how a text stands out.
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

// codes are the parameters of SGR (ECMA-48): the terminal's own colours, which
// its user has made readable.
var codes = [...]string{Plain: "", Bold: "1", Faint: "2", Good: "32", Warn: "33", Bad: "31"}

func (s Style) paint(text string, colours bool) string {
	if !colours || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + codes[s] + "m" + text + "\x1b[0m"
}

// Paint gives a text its style, if there are colours.
func Paint(text string, s Style, colours bool) string { return s.paint(text, colours) }

// Colours says whether a file should be written to in colour: a terminal that
// can, and a user who does not mind (no-color.org).
func Colours(f *os.File) bool {
	return Terminal(f) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
