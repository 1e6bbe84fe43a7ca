package file

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func TestMountPoints(t *testing.T) {
	s := LastGood{filepath.Join(t.TempDir(), "services")}
	if points, err := s.MountPoints(); err != nil || len(points) > 0 {
		t.Error("at the first start:", points, err)
	}
	points := map[string]string{"/etc/s.d": "/etc/s.d", "/srv/\"a\nb\"": "/"}
	must(t, s.KeepMountPoints(points))
	if kept, err := s.MountPoints(); err != nil || !maps.Equal(kept, points) {
		t.Error(kept, err)
	}
	if n, err := s.Len(); n != 0 || err != nil {
		t.Error("the record counts as a copy:", n, err)
	}
	for _, text := range []string{"hello\n", "\"/etc/s.d\" on \"/et", "\"/a\" on \n"} {
		must(t, os.WriteFile(s.mountsFile(), []byte(text), 0o600))
		var damaged *DamagedError
		if kept, err := s.MountPoints(); !errors.As(err, &damaged) || len(kept) > 0 {
			t.Errorf("%q: %v, %v", text, kept, err)
		}
	}
	must(t, s.Clear())
	if _, err := os.Lstat(s.mountsFile()); err == nil {
		t.Error("Clear leaves the record")
	}
}
