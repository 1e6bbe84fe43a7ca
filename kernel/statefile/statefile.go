// Package statefile reads and writes files in the state and runtime directories.
//
// These directories belong to the service's user, and root works in them too: `svcproxy run`,
// `svcproxy cleanup`, and a purge of the package, which calls it. So root must not trust what it
// finds there:
//
//   - A symbolic link is followed only on the way to the directory, and only if root or the calling
//     user made it. The last part of a path is never followed.
//   - Read returns the content of a regular file of at most limit bytes. A FIFO, a device or a larger
//     file is an error, and Read does not block.
//   - Write replaces the whole file with renameio: a new file under a random name, synced, renamed.
//     After a crash the old or the new file is there. A file that root writes belongs to the owner of
//     the directory, so that the service can replace it.
//
// Use it for each file of ours below stateDir or runtimeDir:
//
//	data, err := statefile.Read(filepath.Join(stateDir, "witness.json"), 1<<20) // fs.ErrNotExist: none
//	err = statefile.Write(filepath.Join(stateDir, "witness.json"), data, 0o640) // makes the directory too
//	err = statefile.Remove(filepath.Join(stateDir, "witness.json"))             // no error if it does not exist
//
// For many files of one directory, Open it once. Do not trust the content either: parse it strictly,
// bound its effects, do not quote it in an error, and add the file to the table of TestTamperedState
// in testdata/traffic.
package statefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Read returns the content of a regular file.
func Read(path string, limit int64) ([]byte, error) {
	d, err := Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Read(filepath.Base(path), limit)
}

// Write replaces a file. It makes the directory if it does not exist.
func Write(path string, data []byte, perm fs.FileMode) error {
	d, err := Make(filepath.Dir(path), dirPerm(perm))
	if err != nil {
		return err
	}
	return errors.Join(d.Write(filepath.Base(path), data, perm), d.Close())
}

// Remove removes a file. It is no error if the file does not exist.
func Remove(path string) error {
	d, err := Open(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Remove(filepath.Base(path)), d.Close())
}

// SetAside renames a file that cannot be read to its name with ".unread", so that Write does not lose its content. It
// replaces one that is there. It is no error if the file does not exist.
func SetAside(path string) error {
	d, err := Open(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	name := filepath.Base(path)
	err = d.Rename(name, name+".unread")
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// dirPerm returns the mode of a directory: who may read the file may search its directory.
func dirPerm(perm fs.FileMode) fs.FileMode { return perm | perm&0o444>>2 | 0o300 }

// Dir is an open directory. Names in it have no slash.
type Dir struct{ f *os.File }

// Open opens a directory.
func Open(path string) (*Dir, error) { return openDir(path, 0) }

// Make opens a directory. It makes the directory, and those above it, if they do not exist.
func Make(path string, perm fs.FileMode) (*Dir, error) { return openDir(path, perm) }

// Close closes the directory.
func (d *Dir) Close() error { return d.f.Close() }

// Names returns the names of the regular files in the directory, sorted, without unfinished ones.
func (d *Dir) Names() ([]string, error) {
	if _, err := d.f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	entries, err := d.f.ReadDir(-1)
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && !unfinished(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// Read returns the content of a regular file of at most limit bytes.
func (d *Dir) Read(name string, limit int64) ([]byte, error) {
	f, err := d.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	data.Grow(int(min(st.Size(), limit)) + bytes.MinRead)
	if _, err := data.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(data.Len()) > limit {
		return nil, &fs.PathError{Op: "read", Path: d.path(name), Err: fmt.Errorf("larger than %d bytes", limit)}
	}
	return data.Bytes(), nil
}

// OpenFile opens a regular file for reading.
func (d *Dir) OpenFile(name string) (*os.File, error) {
	f, err := d.openat(name, syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, &fs.PathError{Op: "open", Path: d.path(name), Err: errNotRegular}
	}
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: d.path(name), Err: errNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

var errNotRegular = errors.New("not a regular file")

// Remove removes a file of any type. It is no error if the file does not exist.
func (d *Dir) Remove(name string) error {
	err := plain(name)
	if err == nil {
		err = syscall.Unlinkat(d.fd(), name)
	}
	if err != nil && err != syscall.ENOENT {
		return &fs.PathError{Op: "remove", Path: d.path(name), Err: err}
	}
	return nil
}

func (d *Dir) openat(name string, flags int, perm fs.FileMode) (*os.File, error) {
	err := plain(name)
	var fd int
	if err == nil {
		fd, err = openat(d.fd(), name, flags|syscall.O_NOFOLLOW, perm)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.path(name), Err: err}
	}
	return os.NewFile(uintptr(fd), d.path(name)), nil
}

// plain rejects a name that leads out of the directory.
func plain(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/') {
		return syscall.EINVAL
	}
	return nil
}

func (d *Dir) fd() int                 { return int(d.f.Fd()) }
func (d *Dir) path(name string) string { return filepath.Join(d.f.Name(), name) }

// Handle returns a path to a name in this directory that stays valid if the directory is renamed.
// It works in this process until Close.
func (d *Dir) Handle(name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", d.fd(), name) }

// Rename renames a file and replaces one that has the new name.
func (d *Dir) Rename(from, to string) error {
	err := errors.Join(plain(from), plain(to))
	if err == nil {
		err = syscall.Renameat(d.fd(), from, d.fd(), to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: d.path(from), New: d.path(to), Err: err}
	}
	return nil
}

// Chmod sets the mode of a file. It does not follow a link.
func (d *Dir) Chmod(name string, perm fs.FileMode) error {
	return d.at(name, func(path string) error { return os.Chmod(path, perm) })
}

// Chgrp sets the group of a file. It does not follow a link.
func (d *Dir) Chgrp(name string, gid int) error {
	return d.at(name, func(path string) error { return os.Chown(path, -1, gid) })
}

// at calls do with a path to the file that has the name now.
func (d *Dir) at(name string, do func(path string) error) error {
	f, err := d.openat(name, oPath, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && st.Mode()&fs.ModeSymlink != 0 {
		err = &fs.PathError{Op: "open", Path: d.path(name), Err: syscall.ELOOP}
	}
	if err != nil {
		return err
	}
	return do(fmt.Sprintf("/proc/self/fd/%d", int(f.Fd())))
}

// Owner returns the owner and the group of the directory.
func (d *Dir) Owner() (uid, gid int, err error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(d.fd(), &st); err != nil {
		return 0, 0, &fs.PathError{Op: "stat", Path: d.f.Name(), Err: err}
	}
	return int(st.Uid), int(st.Gid), nil
}
