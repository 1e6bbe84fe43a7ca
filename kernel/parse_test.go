package kernel_test

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestReadsWhatToolsPrint: what `plan --state` is given, with everything of
// others that is on a real machine.
func TestReadsWhatToolsPrint(t *testing.T) {
	const path = "testdata/printed.txtar"
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o := parse(t, a.Files[0])
	o.Names = names
	o.KeepOurs()
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
