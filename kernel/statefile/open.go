package statefile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

// Numbers that package syscall lacks. They are the same on all architectures that we build for.
const (
	oPath             = 0x200000 // O_PATH
	sysOpenat2        = 437
	resolveNoSymlinks = 4 // RESOLVE_NO_SYMLINKS
	atCwd             = ^uintptr(99)
	maxLinks          = 40 // as the kernel follows
)

// openDir opens a directory by its path, part by part. With a perm it makes the parts that do not
// exist.
func openDir(path string, perm fs.FileMode) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if fd, err := openDirect(path); err == nil {
		return &Dir{os.NewFile(uintptr(fd), path)}, nil
	}
	failed := func(err error) (*Dir, error) { return nil, &fs.PathError{Op: "open", Path: path, Err: err} }
	at, err := openat(-1, "/", oPath|syscall.O_DIRECTORY, 0)
	if err != nil {
		return failed(err)
	}
	w := walk{at: at, todo: parts(path), perm: perm}
	defer func() { syscall.Close(w.at) }()
	for len(w.todo) > 0 {
		if err := w.step(); err != nil {
			return failed(err)
		}
	}
	fd, err := openat(w.at, ".", syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return failed(err)
	}
	return &Dir{os.NewFile(uintptr(fd), path)}, nil
}

// openDirect opens a directory if no part of its path is a link. It is one system call and needs
// Linux 5.6. The last good content of services files is in many files that are opened this way.
func openDirect(path string) (int, error) {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return 0, err
	}
	how := struct{ flags, mode, resolve uint64 }{syscall.O_RDONLY | syscall.O_DIRECTORY | syscall.O_CLOEXEC, 0,
		resolveNoSymlinks}
	fd, _, errno := syscall.Syscall6(sysOpenat2, atCwd, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&how)),
		unsafe.Sizeof(how), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(fd), nil
}

// walk opens a path part by part.
type walk struct {
	at    int // the directory reached so far
	todo  []string
	perm  fs.FileMode
	links int // followed so far
}

// step opens the next part of the path.
func (w *walk) step() error {
	name := w.todo[0]
	next, err := openat(w.at, name, oPath|syscall.O_NOFOLLOW, 0)
	if err == syscall.ENOENT && w.perm != 0 {
		if err = w.make(name); err == nil {
			next, err = openat(w.at, name, oPath|syscall.O_NOFOLLOW, 0)
		}
	}
	if err != nil {
		return err
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(next, &st); err != nil {
		syscall.Close(next)
		return err
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		w.todo = w.todo[1:]
		w.enter(next)
		return nil
	case syscall.S_IFLNK:
		syscall.Close(next)
		return w.follow(name, int(st.Uid))
	}
	syscall.Close(next)
	return syscall.ENOTDIR
}

func (w *walk) enter(dir int) {
	syscall.Close(w.at)
	w.at = dir
}

// follow replaces a link in the path by its target.
func (w *walk) follow(name string, owner int) error {
	if owner != 0 && owner != os.Geteuid() {
		return fmt.Errorf("%s is a link that user %d has made: it is not followed", name, owner)
	}
	if w.links++; w.links > maxLinks {
		return syscall.ELOOP
	}
	// If another link takes the place of this one now, it is followed without a check. That needs a
	// directory in which another user may write and root made the first link.
	to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d/%s", w.at, name))
	if err != nil {
		return err
	}
	if filepath.IsAbs(to) {
		root, err := openat(-1, "/", oPath|syscall.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		w.enter(root)
	}
	w.todo = append(parts(to), w.todo[1:]...)
	return nil
}

// make makes a directory and gives it to the owner of its parent.
func (w *walk) make(name string) error {
	err := syscall.Mkdirat(w.at, name, uint32(w.perm))
	if err == syscall.EEXIST {
		return nil // made by another process
	}
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	parent, err := reopen(w.at, ".")
	if err != nil {
		return err
	}
	defer parent.Close()
	made, err := reopen(w.at, name)
	if err != nil {
		return err
	}
	defer made.Close()
	return giveTo(parent, made)
}

func reopen(at int, name string) (*os.File, error) {
	fd, err := openat(at, name, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// giveTo gives a file that root made to the owner of its directory.
func giveTo(dir, made *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var st, now syscall.Stat_t
	if err := syscall.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	if err := syscall.Fstat(int(made.Fd()), &now); err != nil {
		return err
	}
	if now.Uid == st.Uid && now.Gid == st.Gid || st.Uid == 0 {
		return nil
	}
	return made.Chown(int(st.Uid), int(st.Gid))
}

func openat(at int, name string, flags int, perm fs.FileMode) (int, error) {
	for {
		fd, err := syscall.Openat(at, name, flags|syscall.O_CLOEXEC, uint32(perm.Perm()))
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

// parts splits a path into names.
func parts(path string) []string {
	var names []string
	for name := range strings.SplitSeq(path, "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}
