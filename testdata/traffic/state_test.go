package traffic

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A state directory that is full, or that cannot be written, is no outage. What could not be kept there is said, and
// written when there is room again: a restart with a broken file serves the newest content.
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
		must(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, "size=1m"))
	}
	for _, c := range []struct {
		what, why  string
		make, mend func(*testing.T, string)
	}{
		{"full", "no space left on device", full, func(t *testing.T, dir string) {
			must(t, unix.Mount("", dir, "", unix.MS_REMOUNT, "size=1m"))
		}},
		{"read-only", "read-only file system", readOnly, func(t *testing.T, dir string) {
			must(t, unix.Mount("", dir, "", unix.MS_REMOUNT, "size=1m"))
		}},
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
			want := []string{"last-good/services"} // a small file may still fit in a full tmpfs
			if c.what == "read-only" {
				want = append(want, "events.jsonl", "incumbents", "last-good", "mode", "names")
				if modeOf(t) != "userspace" { // which changes none
					want = append(want, "sysctls.json")
				}
			}
			must(t, lab.Eventually(time.Minute, func() error { return n.unkept(c.why, want...) }))
			n.says(t, 7, "status", "cannot be written", c.why)
			n.says(t, 0, "events", "condition", "last-good/services: cannot be written", c.why)
			if strings.Contains(n.Log.String(), "level=ERROR") {
				t.Error("an error is in the log")
			}

			c.mend(t, state)
			must(t, lab.Eventually(time.Minute, func() error { return n.unkept("") }))
			n.says(t, 0, "events", "conditionOver")
			must(t, n.Stop())
			must(t, n.Serve("[services.web"))
			must(t, n.Start())
			n.served(t, "10.96.0.22:80")
			wantEach(t, n.Client, "tcp", "10.96.0.22:80")
		})
	}
}

// unkept wants conditions about these files, each with the reason; no condition at all for no files.
func (n node) unkept(why string, files ...string) error {
	st, err := n.readStatus()
	if err != nil {
		return err
	}
	var said []string
	for _, c := range st.Conditions {
		if c.Kind == "unkept" && strings.Contains(c.Text, why) {
			said = append(said, c.Subject)
		}
	}
	for _, name := range files {
		if !slices.Contains(said, name) {
			return fmt.Errorf("%s is not said: %+v", name, st.Conditions)
		}
	}
	if len(files) == 0 && len(st.Conditions) > 0 {
		return fmt.Errorf("still said: %+v", st.Conditions)
	}
	return nil
}
