package host

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestUnbooted(t *testing.T) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	release := unix.ByteSliceToString(name.Release[:])
	modules := t.TempDir()
	made := func(name string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(modules, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when, want string) {
		t.Helper()
		if got := Unbooted(modules); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	want("without any modules, as in a container", "")
	made("0.0.1-other")
	want("with those of another kernel", release)
	made(release)
	want("with those of the running one", "")
}
