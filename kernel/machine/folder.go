package machine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Folder is a folder on disk.
type Folder struct {
	Path    string
	Exists  bool
	Hidden  bool   // this user may not look at it
	Err     string // why it cannot be looked at; "" if it can or does not exist
	Mode    fs.FileMode
	UID     int
	Newest  time.Time // when the last change of a file in it was
	Changed string    // that file

	// Of the file system. Without inodes of its own, Inodes is 0.
	ReadOnly         bool
	Bytes, BytesFree uint64
	Inodes, NodeFree uint64
}

func (r *reader) folder(path string) Folder {
	f := Folder{Path: path}
	info, err := os.Stat(r.path(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f
	case errors.Is(err, fs.ErrPermission):
		r.lacks = append(r.lacks, Lack{"folder " + path, "permission denied: run as root"})
		f.Exists, f.Hidden = true, true
		return f
	case err != nil:
		f.Err = err.Error()
		return f
	}
	f.Exists, f.Mode = true, info.Mode()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		f.UID = int(st.Uid)
	}
	var s unix.Statfs_t
	if unix.Statfs(r.path(path), &s) == nil {
		f.ReadOnly = s.Flags&unix.ST_RDONLY != 0
		f.Bytes, f.BytesFree = s.Blocks*uint64(s.Bsize), s.Bavail*uint64(s.Bsize)
		f.Inodes, f.NodeFree = s.Files, s.Ffree
	}
	entries, err := os.ReadDir(r.path(path))
	if err != nil {
		r.lacks = append(r.lacks, Lack{"files in " + path, "permission denied"})
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().After(f.Newest) {
			f.Newest, f.Changed = info.ModTime(), filepath.Join(path, e.Name())
		}
	}
	return f
}

// Unit is a systemd unit, as its files say.
type Unit struct {
	Systemd   bool // systemd is this machine's init
	Installed bool
	Masked    string // the link that masks it, "" if none does
	Enabled   bool   // a boot starts it
}

func (r *reader) unit() (u Unit) {
	_, err := os.Stat(r.path("/run/systemd/system"))
	u.Systemd = err == nil
	for _, dir := range []string{"/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system",
		"/lib/systemd/system"} {
		path := filepath.Join(dir, r.o.Unit)
		if to, err := os.Readlink(r.path(path)); err == nil && to == os.DevNull {
			if u.Masked == "" && !u.Installed {
				u.Masked = path // a file of an earlier folder would come first
			}
			continue
		}
		if _, err := os.Stat(r.path(path)); err == nil {
			u.Installed = true
		}
		for _, kind := range []string{"wants", "requires"} {
			found, _ := filepath.Glob(r.path(dir) + "/*." + kind + "/" + r.o.Unit)
			u.Enabled = u.Enabled || len(found) > 0
		}
	}
	return u
}
