package docs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/command"
	"github.com/svcproxy/svcproxy/proxy/exit"
)

func program(out *bytes.Buffer) command.Program {
	var p command.Program
	p = command.Program{Name: "svcproxy", Flags: func(*pflag.FlagSet) {}, Commands: Commands(out, "1.2.3", func() command.Program { return p })}
	return p
}

func TestDocsAreTheSameTwice(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1772323200")
	one, two := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, two} {
		if err := program(nil).Run(t.Context(), []string{"docs", dir}, nil); err != nil {
			t.Fatal(err)
		}
	}
	names, err := filepath.Glob(filepath.Join(one, "*"))
	if err != nil || len(names) != 8 {
		t.Fatalf("%q, %v; want 8 files", names, err)
	}
	for _, name := range names {
		a, aerr := os.ReadFile(name)
		b, berr := os.ReadFile(filepath.Join(two, filepath.Base(name)))
		if aerr != nil || berr != nil || len(a) == 0 || !bytes.Equal(a, b) {
			t.Errorf("%s: %v, %v, %d and %d bytes", name, aerr, berr, len(a), len(b))
		}
		if strings.HasSuffix(name, ".8") && !bytes.Contains(a, []byte(`.TH "SVCPROXY" 8 "2026-03-01" "svcproxy 1.2.3"`)) {
			t.Errorf("%s has another title:\n%.300s", name, a)
		}
		if bytes.Contains(a, []byte("DIR")) {
			t.Errorf("%s tells of a command that is hidden", name)
		}
	}
}

func TestCompletionCommand(t *testing.T) {
	var out bytes.Buffer
	if err := program(&out).Run(t.Context(), []string{"completion", "bash"}, nil); err != nil || !strings.Contains(out.String(), "complete -F _svcproxy svcproxy") {
		t.Errorf("%v: %s", err, out.String())
	}
	for _, args := range [][]string{{"completion"}, {"completion", "tcsh"}, {"completion", "bash", "zsh"}, {"docs"}} {
		var e *exit.Error
		if err := program(&out).Run(t.Context(), args, nil); !errors.As(err, &e) || e.Code != exit.Usage {
			t.Errorf("%q: %v", args, err)
		}
	}
}
