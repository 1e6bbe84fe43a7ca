package file

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Where the kernel refuses an inotify instance or a watch, what is not watched is said, files are polled, and they are watched
// as soon as the kernel allows it. The limits are those of a user namespace, so the test does not take others' instances.
func TestPolledWhileUnwatched(t *testing.T) {
	const inside = "SVCPROXY_TEST_USER_NAMESPACE"
	if os.Getenv(inside) == "" {
		root := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		child := exec.Command(os.Args[0], "-test.run=^TestPolledWhileUnwatched$", "-test.v")
		child.Env = append(os.Environ(), inside+"=1")
		child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: root}
		out, err := child.CombinedOutput()
		if len(out) == 0 {
			t.Skipf("no user namespace: %v", err)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	for name, c := range map[string]struct {
		limit string
		said  func(r *rig) string
	}{
		"instances": {"/proc/sys/user/max_inotify_instances", func(r *rig) string { return r.path("*.toml") }},
		"watches":   {"/proc/sys/user/max_inotify_watches", func(r *rig) string { return r.dir }},
	} {
		t.Run(name, func(t *testing.T) {
			limit := func(n string) {
				if err := os.WriteFile(c.limit, []byte(n), 0); err != nil {
					t.Skip(err)
				}
			}
			limit("0")
			defer limit("1000")
			said, o := make(chan string, 100), watching("*.toml")
			o.rewatch = 100 * time.Millisecond
			o.Unwatched = func(what string, err error) {
				if err == nil {
					what = "again: " + what
				}
				said <- what
			}
			r := start(t, func(r *rig) { r.write("s.toml", "a") }, o)
			r.want("", "a")
			wantSaid(t, said, c.said(r))
			r.write("s.toml", "a", "b") // polled
			r.want("", "a", "b")
			limit("1000")
			wantSaid(t, said, "again: "+c.said(r))
			r.write("s.toml", "a", "b", "c")
			r.want("", "a", "b", "c")
		})
	}
}

// wantSaid waits until a text is said.
func wantSaid(t *testing.T, said <-chan string, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	var heard []string
	for !slices.Contains(heard, want) {
		select {
		case line := <-said:
			heard = append(heard, line)
		case <-ctx.Done():
			t.Fatalf("said %q, want %q", slices.Compact(heard), want)
		}
	}
}
