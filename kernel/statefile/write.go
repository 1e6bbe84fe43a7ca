package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
)

// Write replaces a file. The new content is on disk when Write returns.
//
// renameio works in the open directory by an os.Root, so that another process cannot move the
// directory meanwhile. It creates its own file (O_EXCL), never follows a link in its place, and syncs
// it before the rename. Write adds the owner, and syncs the directory.
func (d *Dir) Write(name string, data []byte, perm fs.FileMode) error {
	err := plain(name)
	if err == nil {
		d.removeUnfinished()
		err = d.write(name, data, perm)
	}
	if err != nil {
		return &fs.PathError{Op: "write", Path: d.path(name), Err: err}
	}
	return d.f.Sync()
}

func (d *Dir) write(name string, data []byte, perm fs.FileMode) error {
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", d.fd()))
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := renameio.NewPendingFile(name, renameio.WithRoot(root), renameio.WithPermissions(perm))
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = giveTo(d.f, f.File)
	}
	if err == nil {
		err = f.CloseAtomicallyReplace()
	}
	if err != nil {
		return errors.Join(err, f.Cleanup()) // a full disk has no room for half a file
	}
	return nil
}

// put is Write without syncs, which renameio cannot do. It creates the file under a fixed name, after
// removing whatever has that name. finish may change the file before it gets its name; nil changes nothing.
func (d *Dir) put(name string, data []byte, perm fs.FileMode, finish func(*os.File) error) error {
	temp := name + newSuffix
	if err := d.Remove(temp); err != nil {
		return err
	}
	f, err := d.openat(temp, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && finish != nil {
		err = finish(f)
	}
	if err == nil {
		err = giveTo(d.f, f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, d.Remove(temp))
	}
	return nil
}

// newSuffix ends the name of a file that put writes.
const newSuffix = ".new"

// unfinished reports whether a name is that of a file that put or renameio writes. renameio takes a
// dot, the name of the file and a random number of up to 19 digits. Names of kept services
// files end in up to 12, so a number must have more.
func unfinished(name string) bool {
	digits := len(name) - len(strings.TrimRight(name, "0123456789"))
	return strings.HasSuffix(name, newSuffix) || name[0] == '.' && digits > 12
}

// swept has the paths of the directories in which this process removed unfinished files.
var swept sync.Map

// abandoned is the age at which an unfinished file has no writer any more.
const abandoned = time.Minute

// removeUnfinished removes files that a crash left, once for each directory and process. It ignores
// errors: such a file only takes room.
func (d *Dir) removeUnfinished() {
	if _, done := swept.LoadOrStore(d.f.Name(), true); done {
		return
	}
	if _, err := d.f.Seek(0, io.SeekStart); err != nil {
		return
	}
	entries, _ := d.f.ReadDir(-1)
	for _, e := range entries {
		if !unfinished(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		if st, err := e.Info(); err == nil && time.Since(st.ModTime()) > abandoned {
			d.Remove(e.Name())
		}
	}
}
