package file

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

// inMounts runs the test in a process with mounts of its own.
func inMounts(t *testing.T) bool {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount")
	}
	if os.Getenv("FILE_MOUNTS") != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "FILE_MOUNTS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return false
}

// mounts are ways to mount a directory, and one to unmount it.
var mounts = map[string]func(r *rig, at string){
	"tmpfs": func(r *rig, at string) {
		r.must(syscall.Mount("tmpfs", at, "tmpfs", 0, "size=64k"))
	},
	"bind": func(r *rig, at string) { // the device is the same
		r.must(os.MkdirAll(r.path("data"), 0o755))
		r.must(syscall.Mount(r.path("data"), at, "", syscall.MS_BIND, ""))
	},
}

func (r *rig) umount(at string) {
	r.Helper()
	r.must(syscall.Unmount(r.path(at), syscall.MNT_DETACH))
}

// TestUnmounted: a directory of files that is unmounted is not one whose files have left it.
func TestUnmounted(t *testing.T) {
	if !inMounts(t) {
		return
	}
	const gone = "s.d: is on another file system, without files, and had 2 files: their last good content is served"
	for how, mount := range mounts {
		t.Run(how, func(t *testing.T) {
			r := &rig{T: t, dir: t.TempDir()}
			r.must(os.Mkdir(r.path("s.d"), 0o755))
			put := func() {
				mount(r, r.path("s.d"))
				r.write("s.d/a.toml", "a")
				r.write("s.d/b.toml", "b")
			}
			put()
			t.Cleanup(func() {
				for syscall.Unmount(r.path("s.d"), syscall.MNT_DETACH) == nil {
				}
			})
			o, _ := r.keeping("s.d/*.toml")
			o.remount = 10 * time.Millisecond
			kept := func() {
				t.Helper()
				if kept := r.kept(); !slices.Equal(kept, []string{"s.d/a.toml", "s.d/b.toml"}) {
					t.Error(kept)
				}
			}
			r.run(o)
			r.want("", "a", "b")
			r.umount("s.d")
			if err := r.reload(); err == nil {
				t.Error("reload is content")
			}
			r.want(gone, "a", "b")
			put() // causes no event
			r.want("", "a", "b")
			r.stop()
			kept()

			// A start without the mount, twice.
			r.umount("s.d")
			for range 2 {
				r.run(o)
				r.want(gone, "a", "b")
				r.stop()
				kept()
			}
			r.run(o)
			r.want(gone, "a", "b")
			put()
			r.want("", "a", "b")

			// The operator wants none.
			r.umount("s.d")
			_ = r.reload()
			r.want(gone, "a", "b")
			r.put("s.d/none.toml", "")
			r.want("")
			r.must(os.Remove(r.path("s.d/none.toml")))
			r.want("")
		})
	}
}

// TestEmptiedMount: files that leave a mounted directory take their services away, before a start, too.
func TestEmptiedMount(t *testing.T) {
	if !inMounts(t) {
		return
	}
	r := &rig{T: t, dir: t.TempDir()}
	r.must(os.Mkdir(r.path("s.d"), 0o755))
	mounts["tmpfs"](r, r.path("s.d"))
	defer r.umount("s.d")
	r.write("s.d/a.toml", "a")
	o, _ := r.keeping("s.d/*.toml")
	r.run(o)
	r.want("", "a")
	r.must(os.Remove(r.path("s.d/a.toml")))
	r.want("")
	r.write("s.d/a.toml", "a")
	r.want("", "a")
	r.stop()
	// After a reboot the mount is another one, at the same place.
	r.umount("s.d")
	mounts["tmpfs"](r, r.path("s.d"))
	r.run(o)
	r.want("")
	r.stop()
	if kept := r.kept(); len(kept) > 0 {
		t.Error(kept)
	}
}

// TestEditedBehindTheMount: an edit of a directory that is no longer mounted here is an event of its watch. Nothing
// has left.
func TestEditedBehindTheMount(t *testing.T) {
	if !inMounts(t) {
		return
	}
	r := &rig{T: t, dir: t.TempDir()}
	r.must(os.Mkdir(r.path("s.d"), 0o755))
	mounts["bind"](r, r.path("s.d"))
	r.write("s.d/a.toml", "a")
	r.write("s.d/b.toml", "b")
	r.run(watching("s.d/*.toml"))
	r.want("", "a", "b")
	r.umount("s.d")
	r.write("data/a.toml", "a", "c")
	r.want("is on another file system", "a", "b")
}

// TestTeamUnmounted: the same for a directory that a glob leads to.
func TestTeamUnmounted(t *testing.T) {
	if !inMounts(t) {
		return
	}
	r := &rig{T: t, dir: t.TempDir()}
	r.must(os.MkdirAll(r.path("teams/x"), 0o755))
	r.must(os.MkdirAll(r.path("teams/y"), 0o755))
	mounts["tmpfs"](r, r.path("teams/x"))
	r.write("teams/x/s.toml", "x")
	r.write("teams/y/s.toml", "y")
	o, _ := r.keeping("teams/*/s.toml")
	o.remount = 10 * time.Millisecond
	r.run(o)
	r.want("", "x", "y")
	r.umount("teams/x")
	r.want("teams/x: is on another file system", "x", "y")
	r.must(os.Remove(r.path("teams/y/s.toml")))
	r.want("teams/x: is on another file system", "x")
	r.stop()
	r.run(o)
	r.want("teams/x: is on another file system", "x")
	mounts["tmpfs"](r, r.path("teams/x"))
	r.must(os.WriteFile(r.path("teams/x/s.toml"), []byte(services("z")), 0o644))
	r.want("", "z")
	r.umount("teams/x")
}

// TestMountedBelow: a named file whose directory is mounted is found without an event.
func TestMountedBelow(t *testing.T) {
	if !inMounts(t) {
		return
	}
	r := &rig{T: t, dir: t.TempDir()}
	r.must(os.MkdirAll(r.path("data"), 0o755))
	r.must(os.MkdirAll(r.path("etc"), 0o755))
	r.write("data/s.toml", "a")
	o := watching("etc/s.toml")
	o.remount = 10 * time.Millisecond
	r.run(o)
	r.want("is not there")
	mounts["bind"](r, r.path("etc"))
	r.want("", "a")
	r.umount("etc")
}

// TestElsewhere is TestUnmounted without root: decided from listings.
func TestElsewhere(t *testing.T) {
	const path = "/etc/s.d/x.toml"
	on := func(m mount, files ...string) *listing {
		return &listing{files: files, mounts: map[string]mount{"/etc/s.d": m}}
	}
	nfs, root := mount{7, "/etc/s.d"}, mount{1, "/"}
	for _, c := range []struct {
		what    string
		was     mount
		steps   []*listing
		serving int
		holds   bool
	}{
		{"left", nfs, []*listing{on(nfs)}, 0, false},
		{"unmounted", nfs, []*listing{on(root)}, 1, true},
		{"unmounted, listed twice", nfs, []*listing{on(root), on(root)}, 1, true},
		{"an empty one is mounted", nfs, []*listing{on(mount{9, "/etc/s.d"})}, 1, true},
		{"bound over", root, []*listing{on(mount{9, "/etc/s.d"})}, 1, true},
		{"mounted since an earlier run", mount{0, "/etc/s.d"}, []*listing{on(nfs)}, 0, false},
		{"not mounted since an earlier run", mount{0, "/etc/s.d"}, []*listing{on(root)}, 1, true},
		{"made again", nfs, []*listing{{absent: []string{"/etc/s.d"}}, on(root)}, 0, false},
	} {
		g := running()
		takes(g, path, services("a"))
		g.mounts["/etc/s.d"] = c.was
		for _, l := range c.steps {
			l.elsewhere = l.lostMounts(g.mounts)
			hidden := l.mayHold(path)
			g.take(path, look{hidden: hidden, absent: !hidden}, true, time.Now())
			g.directories(l, time.Now())
		}
		if table, err := g.outcome(); table.Services.Len() != c.serving || (err != nil) != c.holds {
			t.Errorf("%s: %d services, %v", c.what, table.Services.Len(), err)
		}
	}
}
