package before

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// The first value of a boot is what counts, whatever is written after it, and
// nothing is left to put back once it has been written again.
func TestFirstValueOfABoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on demand")
	want := func(when string, v *Values, want ...kernel.Saved) {
		t.Helper()
		if !slices.Equal(v.All(), want) || v.Warning() != nil {
			t.Errorf("%s: %v and %v, want %v", when, v.All(), v.Warning(), want)
		}
	}
	v := Open(dir, "boot 1")
	v.Changing("b", "1", "2")
	v.Changing("a", "x", "x") // no change
	v.Changing("a", "x", "y")
	v.Store()
	want("before the write", Open(dir, "boot 1"), kernel.Saved{Name: "a", Before: "x", Ours: "y"}, kernel.Saved{Name: "b", Before: "1", Ours: "2"})

	v = Open(dir, "boot 1")
	v.Changing("b", "7", "3") // 7 is somebody's drift
	v.Changed("b", "3")
	v.Changed("a", "x")
	v.Changed("c", "was never noted")
	v.Store()
	want("in memory", v, kernel.Saved{Name: "b", Before: "1", Ours: "3"})
	want("on disk", Open(dir, "boot 1"), v.All()...)
	want("after a reboot", Open(dir, "boot 2"))
	want("without a directory", Open("", "boot 1"))
}

// Trouble with the disk costs the memory there, and is said until it is over.
func TestTroubleIsAWarning(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, File), []byte("{not json"), 0o644); err != nil {
		t.Fatal(err)
	}
	v := Open(dir, "boot")
	if v.Warning() == nil || !strings.Contains(v.Warning().Error(), File) {
		t.Errorf("warning %v", v.Warning())
	}
	v.Changing("a", "1", "2")
	v.Store()
	if v.Warning() != nil || len(Open(dir, "boot").All()) != 1 {
		t.Errorf("warning %v after the file could be replaced", v.Warning())
	}

	inTheWay := filepath.Join(dir, "file")
	if err := os.WriteFile(inTheWay, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	v = Open(inTheWay, "boot")
	v.Changing("a", "1", "2")
	v.Store()
	if v.Warning() == nil || len(v.All()) != 1 {
		t.Errorf("warning %v, remembered %v", v.Warning(), v.All())
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	v.Store()
	if v.Warning() != nil || len(Open(inTheWay, "boot").All()) != 1 {
		t.Errorf("warning %v after the directory could be made", v.Warning())
	}
}

// What is not known as a parameter of ours is not put back, and said.
func TestCheckLeavesOut(t *testing.T) {
	dir := t.TempDir()
	v := Open(dir, "boot")
	v.Changing("known", "1", "2")
	v.Changing("unknown", "1", "2")
	v.Store()
	v = Open(dir, "boot")
	v.Check(func(p kernel.Saved) error {
		if p.Name == "unknown" {
			return errors.New("not ours")
		}
		return nil
	})
	if want := []kernel.Saved{{Name: "known", Before: "1", Ours: "2"}}; !slices.Equal(v.All(), want) {
		t.Errorf("%v, want %v", v.All(), want)
	}
	if v.Warning() == nil || !strings.Contains(v.Warning().Error(), "not ours: left out") {
		t.Error(v.Warning())
	}
}
