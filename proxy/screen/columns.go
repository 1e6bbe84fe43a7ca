package screen

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cell is one field of a row.
type Cell struct {
	Text  string
	Style Style
	Right bool // aligned, as numbers are
}

// Columns are rows whose cells line up. The first row is the heading, if any.
type Columns struct {
	// Elastic are the indexes of the columns that are cut if rows are wider than the
	// screen, in this order. None gets narrower than minElastic.
	Elastic []int

	rows [][]Cell
}

const (
	gap        = 2 // between two columns
	minElastic = 10
)

// Heading adds the heading. A word that begins with ">" is aligned right, without
// the ">".
func (c *Columns) Heading(words ...string) {
	row := make([]Cell, len(words))
	for i, w := range words {
		text, right := strings.CutPrefix(w, ">")
		row[i] = Cell{Text: text, Style: Faint, Right: right}
	}
	c.rows = append(c.rows, row)
}

// Row adds a row.
func (c *Columns) Row(cells ...Cell) {
	for i := range cells {
		cells[i].Text = Clean(cells[i].Text)
	}
	c.rows = append(c.rows, cells)
}

// Lines returns the rows, none wider than width; 0 = any width. Elastic columns are
// cut first. What still does not fit is left out at the right.
func (c *Columns) Lines(width int, colours bool) []string {
	widths := c.widths(width)
	lines := make([]string, len(c.rows))
	for i, row := range c.rows {
		lines[i] = line(row, widths, width, colours)
	}
	return lines
}

func line(row []Cell, widths []int, width int, colours bool) string {
	var b strings.Builder
	used := 0
	for j, cell := range row {
		room := widths[j]
		if width > 0 {
			room = min(room, width-used)
		}
		if room <= 0 {
			break
		}
		text := Cut(cell.Text, room)
		pad := strings.Repeat(" ", room-utf8.RuneCountInString(text))
		if cell.Right {
			b.WriteString(pad)
		}
		b.WriteString(cell.Style.paint(text, colours))
		used += room + gap
		if j == len(row)-1 || width > 0 && used >= width {
			break
		}
		if !cell.Right {
			b.WriteString(pad)
		}
		b.WriteString(strings.Repeat(" ", gap))
	}
	return b.String()
}

// widths returns the width of each column.
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

// Cut shortens a text to at most width characters. The last one is an ellipsis.
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

// Wrap breaks a text into lines of at most width characters, between words if
// possible; 0 = any width. Lines after the first are indented.
func Wrap(text string, width, indent int) []string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var lines []string
	rest, prefix := []rune(text), ""
	for room := width; len(rest) > room; room = max(1, width-indent) {
		at := room
		for at > room/2 && rest[at] != ' ' {
			at--
		}
		if rest[at] != ' ' {
			at = room // a word longer than half a line
		}
		lines = append(lines, prefix+string(rest[:at]))
		for rest = rest[at:]; len(rest) > 0 && rest[0] == ' '; {
			rest = rest[1:]
		}
		prefix = strings.Repeat(" ", indent)
	}
	if len(rest) > 0 {
		lines = append(lines, prefix+string(rest))
	}
	return lines
}

// Clean makes a text safe for one line of a terminal: line ends and tabs become
// spaces, other control characters question marks. Texts contain words of other
// programs and of files.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r):
			return '?'
		}
		return r
	}, text)
}
