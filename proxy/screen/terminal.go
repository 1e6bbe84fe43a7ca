package screen

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// Terminal reports whether a file is a terminal.
func Terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Size is the size of a terminal in characters; 0, 0 if the file is not one.
func Size(f *os.File) (width, height int) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}

// Control sequences of ECMA-48 and xterm.
const (
	Home       = "\x1b[H"
	EraseLine  = "\x1b[K" // from the cursor to its end
	EraseBelow = "\x1b[J"
	Enter      = "\x1b[?1049h\x1b[?25l" // switch to the alternate screen and hide the cursor
	Leave      = "\x1b[?25h\x1b[?1049l"
)

// InPlace draws a text over what a terminal shows. Lines that do not fit are
// replaced by their number.
func InPlace(text string, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > height {
		left := len(lines) - height + 1
		lines = append(lines[:height-1:height-1], fmt.Sprintf("… %d more lines", left))
	}
	// A line feed at the end would scroll the terminal.
	return Home + strings.Join(lines, EraseLine+"\r\n") + EraseLine + EraseBelow
}
