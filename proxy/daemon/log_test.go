package daemon

import (
	"strings"
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
