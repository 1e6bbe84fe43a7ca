package commands

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
)

// program has the commands completion and docs, which print to out.
func program(out *os.File) cli.Program {
	e := &Env{Out: out, Version: "1.2.3"}
	var p cli.Program
	whole := func() cli.Program { return p }
	p = cli.Program{Name: "svcproxy", Flags: func(*pflag.FlagSet) {}, Commands: []cli.Command{Completion(e, whole), Docs(e, whole)}}
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
	if err != nil || len(names) < 16 {
		t.Fatalf("%q, %v; want 16 files or more", names, err)
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
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := program(out).Run(t.Context(), []string{"completion", "bash"}, nil); err != nil {
		t.Error(err)
	}
	if script, err := os.ReadFile(out.Name()); err != nil || !strings.Contains(string(script), "complete -F _svcproxy svcproxy") {
		t.Errorf("%v: %s", err, script)
	}
	for _, args := range [][]string{{"completion"}, {"completion", "tcsh"}, {"completion", "bash", "zsh"}, {"docs"}} {
		var e *cli.Error
		if err := program(out).Run(t.Context(), args, nil); !errors.As(err, &e) || e.Code != cli.Usage {
			t.Errorf("%q: %v", args, err)
		}
	}
}
