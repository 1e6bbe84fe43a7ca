package screen

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// Terminal says whether a file is one.
func Terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Size is a terminal's; 0, 0 of what is none.
func Size(f *os.File) (width, height int) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}

// What a terminal understands (ECMA-48 and xterm).
const (
	Home       = "\x1b[H"
	EraseLine  = "\x1b[K" // from the cursor on
	EraseBelow = "\x1b[J"
	Enter      = "\x1b[?1049h\x1b[?25l" // the other screen, and no cursor
	Leave      = "\x1b[?25h\x1b[?1049l"
)

// InPlace writes a text over what a terminal shows, its last lines left out
// where they do not fit.
func InPlace(text string, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > height {
		left := len(lines) - height + 1
		lines = append(lines[:height-1:height-1], fmt.Sprintf("… %d more lines", left))
	}
	// Without a line feed at the end, which would scroll.
	return Home + strings.Join(lines, EraseLine+"\r\n") + EraseLine + EraseBelow
}
