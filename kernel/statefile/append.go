package statefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Put is Write without syncing: for what is of no use after a reboot, and is not to wait for the disk.
func Put(path string, data []byte, perm fs.FileMode) error {
	d, err := Make(filepath.Dir(path), dirPerm(perm))
	if err != nil {
		return err
	}
	unsynced := func(*os.File) error { return nil }
	return errors.Join(d.replace(filepath.Base(path), data, perm, unsynced), d.Close())
}

// Append adds to the end of a file that is there, without syncing it: what a crash of the machine takes
// is lost, what one of the process does is not. A file that is not there is fs.ErrNotExist.
func Append(path string, data []byte) error {
	d, err := Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Append(filepath.Base(path), data), d.Close())
}

// Append adds to the end of a file that is there.
func (d *Dir) Append(name string, data []byte) error {
	f, err := d.openat(name, syscall.O_WRONLY|syscall.O_APPEND|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	// Under another name it may be another's file: Write would leave that alone, Append would not.
	if err == nil && (!st.Mode().IsRegular() || st.Sys().(*syscall.Stat_t).Nlink > 1) {
		err = &fs.PathError{Op: "append", Path: d.path(name), Err: errNotRegular}
	}
	if err == nil {
		_, err = f.Write(data)
	}
	return errors.Join(err, f.Close())
}
