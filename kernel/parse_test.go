package kernel_test

import (
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

var update = flag.Bool("update", false, "rewrite what the texts of other tools are read as")

// The input of `plan --state`, with all foreign objects of a real machine.
func TestReadsWhatToolsPrint(t *testing.T) {
	const path = "testdata/printed.txtar"
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o, err := kernel.ParseObserved(string(a.Files[0].Data))
	if err != nil {
		t.Fatal(err)
	}
	o.Names = kernel.DefaultNames
	plan.KeepOwned(&o)
	got := o.String()
	if *update {
		a.Files[1].Data = []byte(got)
		if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := string(a.Files[1].Data); got != want {
		t.Errorf("reading:\n%s\nwant:\n%s", got, want)
	}
}
