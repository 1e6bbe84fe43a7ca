package screen

import (
	"strings"
	"unicode/utf8"
)

// Cell is one field of a row.
type Cell struct {
	Text  string
	Style Style
	Right bool // numbers
}

// Columns are rows that line up. The first is the heading, if there is one.
type Columns struct {
	// Elastic are the columns, by index, that may be cut when a row is wider than
	// the screen, in the order in which they are; none narrower than minElastic.
	Elastic []int

	rows [][]Cell
}

const (
	gap        = 2 // between two columns
	minElastic = 10
)

// Heading adds a row of words in capitals. Those that begin with ">" stand at
// the right of their columns, without it.
func (c *Columns) Heading(words ...string) {
	row := make([]Cell, len(words))
	for i, w := range words {
		text, right := strings.CutPrefix(w, ">")
		row[i] = Cell{Text: text, Style: Faint, Right: right}
	}
	c.rows = append(c.rows, row)
}

// Row adds a row.
func (c *Columns) Row(cells ...Cell) { c.rows = append(c.rows, cells) }

// Lines are the rows, none wider than width if that is possible by cutting
// elastic columns; 0 is any width. Without colours styles do not show.
func (c *Columns) Lines(width int, colours bool) []string {
	widths := c.widths(width)
	lines := make([]string, len(c.rows))
	for i, row := range c.rows {
		var b strings.Builder
		for j, cell := range row {
			text := Cut(cell.Text, widths[j])
			pad := strings.Repeat(" ", widths[j]-utf8.RuneCountInString(text))
			last := j == len(row)-1
			if cell.Right {
				b.WriteString(pad)
			}
			b.WriteString(cell.Style.paint(text, colours))
			if !cell.Right && !last {
				b.WriteString(pad)
			}
			if !last {
				b.WriteString(strings.Repeat(" ", gap))
			}
		}
		lines[i] = b.String()
	}
	return lines
}

// widths are those of the columns.
func (c *Columns) widths(width int) []int {
	var widths []int
	for _, row := range c.rows {
		for j, cell := range row {
			if j == len(widths) {
				widths = append(widths, 0)
			}
			widths[j] = max(widths[j], utf8.RuneCountInString(cell.Text))
		}
	}
	total := gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for _, j := range c.Elastic {
		if over := total - width; width > 0 && over > 0 && j < len(widths) {
			cut := min(over, max(0, widths[j]-minElastic))
			widths[j] -= cut
			total -= cut
		}
	}
	return widths
}

// Cut shortens a text to so many characters, the last of them an ellipsis.
func Cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	if width <= 0 {
		return ""
	}
	runes := []rune(text)
	return string(runes[:width-1]) + "…"
}
