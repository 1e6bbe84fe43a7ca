package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The journal is known by the device and the inode of the file. A line to it begins with its priority.
func TestJournal(t *testing.T) {
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	journal, other := open("journal"), open("other")
	info, err := journal.Stat()
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", st.Dev, st.Ino))
	if !Journal(journal) || Journal(other) || Journal(&strings.Builder{}) {
		t.Error("the journal, another file, no file:", Journal(journal), Journal(other), Journal(&strings.Builder{}))
	}
	Tell(journal, &Error{Code: Config, Err: errors.New("no such file"), Hint: "make it"})
	Tell(other, errors.New("no such file"))
	for f, want := range map[*os.File]string{journal: "<3>svcproxy: no such file\n<6>hint: make it\n", other: "svcproxy: no such file\n"} {
		if text, err := os.ReadFile(f.Name()); err != nil || string(text) != want {
			t.Errorf("%q, %v; want %q", text, err, want)
		}
	}
	t.Setenv("JOURNAL_STREAM", "")
	if Journal(journal) {
		t.Error("without JOURNAL_STREAM")
	}
}
