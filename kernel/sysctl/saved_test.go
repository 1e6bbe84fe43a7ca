package sysctl

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// The first value of a boot wins over later ones. Writing it again drops the entry.
func TestFirstValueOfABoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on demand")
	want := func(when string, v *Saved, want ...kernel.Saved) {
		t.Helper()
		if !slices.Equal(v.All(), want) || v.Warning() != nil {
			t.Errorf("%s: %v and %v, want %v", when, v.All(), v.Warning(), want)
		}
	}
	v := OpenSaved(dir, "boot 1")
	v.Save("b", "1", "2")
	v.Save("a", "x", "x") // no change
	v.Save("a", "x", "y")
	v.Flush()
	want("before the write", OpenSaved(dir, "boot 1"), kernel.Saved{Name: "a", Before: "x", Ours: "y"}, kernel.Saved{Name: "b", Before: "1", Ours: "2"})

	v = OpenSaved(dir, "boot 1")
	v.Save("b", "7", "3") // 7 is drift
	v.Wrote("b", "3")
	v.Wrote("a", "x")
	v.Wrote("c", "was never noted")
	v.Flush()
	want("in memory", v, kernel.Saved{Name: "b", Before: "1", Ours: "3"})
	want("on disk", OpenSaved(dir, "boot 1"), v.All()...)
	want("after a reboot", OpenSaved(dir, "boot 2"))
	want("without a directory", OpenSaved("", "boot 1"))
}

// If the disk fails, values stay in memory, and Warning has the error until a write succeeds.
func TestTroubleIsAWarning(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, SavedFile), []byte("{not json"), 0o644); err != nil {
		t.Fatal(err)
	}
	v := OpenSaved(dir, "boot")
	if v.Warning() == nil || !strings.Contains(v.Warning().Error(), SavedFile) {
		t.Errorf("warning %v", v.Warning())
	}
	v.Save("a", "1", "2")
	v.Flush()
	if v.Warning() != nil || len(OpenSaved(dir, "boot").All()) != 1 {
		t.Errorf("warning %v after the file could be replaced", v.Warning())
	}
	if text, err := os.ReadFile(filepath.Join(dir, SavedFile+".unread")); string(text) != "{not json" {
		t.Errorf("of the file that could not be read is left: %q, %v", text, err)
	}
	v.Save("b", "1", "2")
	v.Flush()
	if text, _ := os.ReadFile(filepath.Join(dir, SavedFile+".unread")); string(text) != "{not json" {
		t.Errorf("after one more write: %q", text)
	}

	inTheWay := filepath.Join(dir, "file")
	if err := os.WriteFile(inTheWay, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	v = OpenSaved(inTheWay, "boot")
	v.Save("a", "1", "2")
	v.Flush()
	if v.Warning() == nil || len(v.All()) != 1 {
		t.Errorf("warning %v, remembered %v", v.Warning(), v.All())
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	v.Flush()
	if v.Warning() != nil || len(OpenSaved(inTheWay, "boot").All()) != 1 {
		t.Errorf("warning %v after the directory could be made", v.Warning())
	}
}

// Check drops parameters that it does not allow, and Warning names them.
func TestCheckDropsValues(t *testing.T) {
	dir := t.TempDir()
	v := OpenSaved(dir, "boot")
	v.Save("known", "1", "2")
	v.Save("unknown", "1", "2")
	v.Flush()
	v = OpenSaved(dir, "boot")
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
	v.Save("more", "1", "2")
	v.Flush()
	if text, err := os.ReadFile(filepath.Join(dir, SavedFile+".unread")); !strings.Contains(string(text), `"unknown"`) {
		t.Errorf("of what was left out is left: %q, %v", text, err)
	}
}
