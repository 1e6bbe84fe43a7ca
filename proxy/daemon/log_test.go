package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A logger that was handed out before a change follows it.
func TestLogSet(t *testing.T) {
	var out strings.Builder
	log := newLog(&out)
	held := log.With("source", "file")
	held.Info("one")
	held.Debug("not said")
	log.Set("json", 4)
	held.Debug("two")
	log.Set("text", 0)
	log.Toggle()
	held.Debug("three")
	log.Toggle()
	held.Debug("not said")
	for _, want := range []string{"level=INFO msg=one source=file\n", `"level":"DEBUG","msg":"two","source":"file"}`, "level=DEBUG msg=three source=file\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "not said") {
		t.Error(out.String())
	}
}

// In the journal a line begins with its priority, in both formats, and a text line has no time.
func TestLogToTheJournal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", st.Dev, st.Ino))
	log := newLog(file)
	log.Warn("one")
	held := log.With("source", "file")
	held.Info("two")
	log.Set("json", 4)
	held.Debug("three")
	log.Error("four")
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"<4>level=WARN msg=one", `<6>level=INFO msg=two source=file`, `<7>{"time":"`, `<3>{"time":"`, "",
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), text)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %q, want %q", line, want[i])
		}
	}
}
