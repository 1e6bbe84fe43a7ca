package screen_test

import (
	"testing"
	"unicode/utf8"

	"github.com/svcproxy/svcproxy/proxy/screen"
)

// No line is wider than the terminal.
func FuzzWidth(f *testing.F) {
	f.Add("one two three four", 9, 2)
	f.Add("ééé ééé", 3, 0)
	f.Add("", 1, 1)
	f.Fuzz(func(t *testing.T, text string, width, indent int) {
		if width < 1 || width > 1000 || indent < 0 || indent >= width || !utf8.ValidString(text) {
			t.Skip()
		}
		var c screen.Columns
		c.Elastic = []int{0}
		c.Row(screen.Cell{Text: text}, screen.Cell{Text: "12", Right: true}, screen.Cell{Text: text})
		for _, line := range append(append(c.Lines(width, false), screen.Wrap(text, width, indent)...), screen.Cut(text, width)) {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("%d characters in a width of %d: %q", n, width, line)
			}
		}
	})
}
