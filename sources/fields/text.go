package fields

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// checkText says why a file cannot be TOML: it is not UTF-8, or too long.
func checkText(text string) (Mistake, bool) {
	switch {
	case strings.HasPrefix(text, "\xff\xfe"), strings.HasPrefix(text, "\xfe\xff"):
		return Mistake{Line: 1, Message: "not UTF-8 but UTF-16: TOML files must be UTF-8"}, false
	case !utf8.ValidString(text):
		at := validLength(text)
		message := fmt.Sprintf("not UTF-8, at byte %#x: TOML files must be", text[at])
		return Mistake{Line: lineAt(text, at), Message: message}, false
	}
	if at := strings.IndexByte(text, 0); at >= 0 {
		const message = "not TOML: a zero byte, as in UTF-16 or in no text at all: TOML files must be UTF-8"
		return Mistake{Line: lineAt(text, at), Message: message}, false
	}
	m, long := tooLong(strings.Count(text, "\n"))
	return m, !long
}

// TooLong returns the mistake of a document that has too many lines.
func TooLong(data []byte) (Mistake, bool) { return tooLong(bytes.Count(data, []byte("\n"))) }

func tooLong(lines int) (Mistake, bool) {
	if lines < maxLines {
		return Mistake{}, false
	}
	return Mistake{Line: maxLines, Message: fmt.Sprintf("more than %d lines", maxLines)}, true
}

// validLength is how many bytes of the text are UTF-8.
func validLength(text string) int {
	for i, r := range text {
		if r != utf8.RuneError {
			continue
		}
		if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
			return i
		}
	}
	return len(text)
}
