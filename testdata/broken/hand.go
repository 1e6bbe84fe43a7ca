package broken

import (
	"bytes"
	"fmt"
	"iter"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf16"
)

// ByHand are broken contents written by hand: other formats and encodings, unterminated
// statements. Those made of the valid one are no longer valid, whatever it is.
func ByHand(valid []byte) []Case {
	wide := utf16.Encode([]rune(string(valid)))
	var little, big []byte
	for _, u := range wide {
		little, big = append(little, byte(u), byte(u>>8)), append(big, byte(u>>8), byte(u))
	}
	end := func(s string) []byte { return append(slices.Clone(valid), s...) }
	return []Case{
		{"cut in a statement", end("\n[services.")},
		{"cut in a string", end("\nx = \"abc")},
		{"cut in a list", end("\nx = [1, 2")},
		{"cut in an inline table", end("\nx = { a = 1,")},
		{"cut in a key", end("\nx")},
		{"cut behind an equals sign", end("\nx =")},
		{"cut in a long string", end("\nx = \"\"\"\nabc\n")},
		{"zeros at the end", end("\n\x00\x00\x00\x00")},
		{"nothing but zeros", make([]byte, 4096)},
		{"twice", end("\n" + string(valid))},
		{"conflict of a merge", slices.Concat([]byte("<<<<<<< HEAD\n"), valid, []byte("=======\n"), valid, []byte(">>>>>>> theirs\n"))},
		{"a diff", []byte("--- a\n+++ b\n@@ -1 +1 @@\n-x = 1\n+x = 2\n")},
		{"UTF-16 with a mark", append([]byte{0xff, 0xfe}, little...)},
		{"UTF-16 big-endian with a mark", append([]byte{0xfe, 0xff}, big...)},
		{"UTF-16", little},
		{"UTF-16 big-endian", big},
		{"Latin-1", end("# caf\xe9\n")},
		{"half a character", end("# \xe2\x82")},
		{"two byte order marks", slices.Concat([]byte("\ufeff\ufeff"), valid)},
		{"ends of lines of an old Mac", bytes.ReplaceAll(valid, []byte("\n"), []byte("\r"))},
		{"terminal's colours", end("\x1b[31mx = 1\x1b[0m\n")},
		{"gzip", []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03abc")},
		{"a program", []byte("\x7fELF\x02\x01\x01\x00")},
		{"JSON", []byte("{\n  \"services\": {}\n}\n")},
		{"YAML", []byte("services:\n  web:\n    clusterIP: 10.96.0.20\n")},
		{"HTML", []byte("<!DOCTYPE html>\n<title>404 Not Found</title>\n")},
		{"a shell's words", []byte("services web clusterIP=10.96.0.20\n")},
		{"a template not filled in", end("\nx = {{ .Values.x }}\n")},
		{"an error message", []byte("bash: render: command not found\n")},
		{"brackets without end", []byte("x = " + strings.Repeat("[", 1<<20))},
		{"tables without end", []byte("x = " + strings.Repeat("{a=", 1<<20))},
		{"a dotted key without end", []byte(strings.Repeat("a.", 1<<20) + "a = 1\n")},
		{"a dotted header without end", []byte("[" + strings.Repeat("a.", 1<<20) + "a]\n")},
	}
}

// Vast are contents of absurd size, most of them 50 MB: garbage, and valid content that is only too
// much. They are made one at a time.
func Vast() iter.Seq[Case] {
	const size = 50 << 20
	repeat := func(s string) func() []byte {
		return func() []byte { return bytes.Repeat([]byte(s), size/len(s)) }
	}
	return func(yield func(Case) bool) {
		for _, v := range []struct {
			name string
			make func() []byte
		}{
			{"a million keys in one table", func() []byte { return numbered("x = {", "k%d = 1, ", "}\n", 1_100_000) }},
			{"a million lines of keys", func() []byte { return numbered("", "k%d = 1\n", "", 1_100_000) }},
			{"unknown keys", func() []byte { return numbered("", "k%d = 1\n", "", 100_000) }},
			{"one letter", repeat("a")},
			{"a string without end", func() []byte { return append([]byte("x = \""), repeat("s")()...) }},
			{"empty lines", repeat("\n")},
			{"one key", repeat("a = 1\n")},
			{"a log", repeat("Nov 20 10:00:00 node svcproxy[1]: synced\n")},
			{"numbers", func() []byte { return slices.Concat([]byte("x = ["), repeat("1,")(), []byte("]\n")) }},
			{"headers", repeat("[[a]]\n")},
		} {
			if !yield(Case{v.name, v.make()}) {
				return
			}
		}
	}
}

func numbered(begin, format, end string, n int) []byte {
	var b bytes.Buffer
	b.WriteString(begin)
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	b.WriteString(end)
	return b.Bytes()
}

// Place is a path that is no file, or none that can be read.
type Place struct {
	Name string
	Make func(path string) error // where nothing is
}

// Places are those there are; none may be waited for.
func Places() []Place {
	link := func(target string) func(string) error {
		return func(path string) error { return os.Symlink(target, path) }
	}
	return []Place{
		{"gone", func(string) error { return nil }},
		{"a directory", func(path string) error { return os.Mkdir(path, 0o755) }},
		{"a FIFO", func(path string) error { return syscall.Mkfifo(path, 0o644) }},
		{"a socket", makeSocket},
		{"a link to nothing", link("nowhere")},
		{"a link to itself", func(path string) error { return os.Symlink(filepath.Base(path), path) }},
		{"a link to a directory", link(".")},
		{"a link through a file", link("/etc/passwd/x")},
		{"a link to zeros", link("/dev/zero")},
		{"a link to a terminal", link("/dev/tty")},
		{"a link to the kernel's log", link("/proc/kmsg")}, // a regular file of size 0 whose read waits
		{"a link to a process", link("/proc/self/mem")},
		{"a link to a file of another size", link("/proc/self/status")},
		{"far too large", func(path string) error {
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				return err
			}
			return os.Truncate(path, 1<<40)
		}},
	}
}

// makeSocket creates a socket without a listener.
func makeSocket(path string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}
