package traffic

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A state directory that is full, or that cannot be written, costs what would be
// kept there: that is a warning, and everything is served.
func TestNoRoomForStateIsNoOutage(t *testing.T) {
	full := func(t *testing.T, dir string) {
		must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"))
		filler, err := os.Create(filepath.Join(dir, "filler"))
		must(t, err)
		for err == nil {
			_, err = filler.Write(make([]byte, 4096))
		}
		filler.Close()
	}
	readOnly := func(t *testing.T, dir string) {
		must(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, "size=16k"))
	}
	for _, c := range []struct {
		what, why string
		make      func(*testing.T, string)
	}{
		{"full", "no space left on device", full},
		{"read-only", "read-only file system", readOnly},
	} {
		t.Run(c.what, func(t *testing.T) {
			n := newNode(t, "")
			state := filepath.Join(n.Dir, "state")
			must(t, os.Mkdir(state, 0o755))
			c.make(t, state)
			t.Cleanup(func() { must(t, unix.Unmount(state, unix.MNT_DETACH)) })

			n.start(t, clusterIP("web", "10.96.0.20", allV4))
			wantEach(t, n.Client, "tcp", "10.96.0.20:80")
			for _, vip := range []string{"10.96.0.21", "10.96.0.22"} {
				n.serve(t, clusterIP("web", vip, allV4))
				wantEach(t, n.Client, "tcp", vip+":80")
			}
			must(t, n.Stop())
			var kept []string
			for line := range strings.Lines(n.Log.String()) {
				if strings.Contains(line, "level=ERROR") {
					t.Error(line)
				}
				if strings.Contains(line, "level=WARN") && strings.Contains(line, c.why) {
					kept = append(kept, line)
				}
			}
			t.Logf("%q", kept)
			services := 0
			for _, line := range kept {
				if strings.Contains(line, "the last good content of service files cannot be kept") {
					services++
				}
			}
			if services != 1 {
				t.Errorf("%d warnings about service files", services)
			}
		})
	}
}
