package statefile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Put is Write without syncing, for files that are of no use after a reboot. It does not wait for the
// disk.
func Put(path string, data []byte, perm fs.FileMode) error {
	d, err := Make(filepath.Dir(path), dirPerm(perm))
	if err != nil {
		return err
	}
	return errors.Join(d.put(filepath.Base(path), data, perm, nil), d.Close())
}

// Publish is Put of a file that every user may read, whatever the umask is. If the file has the content already, it
// stays.
func Publish(path string, data []byte) error {
	const readable = 0o644
	d, err := Make(filepath.Dir(path), dirPerm(readable))
	if err != nil {
		return err
	}
	defer d.Close()
	name := filepath.Base(path)
	if have, err := d.Read(name, int64(len(data))); err == nil && bytes.Equal(have, data) {
		return nil
	}
	return d.put(name, data, readable, func(f *os.File) error { return f.Chmod(readable) })
}

// Append adds data to the end of a file without syncing it. A crash of the machine may lose the data, a
// crash of the process does not. If the file does not exist, the error is fs.ErrNotExist.
func Append(path string, data []byte) error {
	d, err := Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Append(filepath.Base(path), data), d.Close())
}

// Append adds data to the end of a file, which must exist.
func (d *Dir) Append(name string, data []byte) error {
	f, err := d.openat(name, syscall.O_WRONLY|syscall.O_APPEND|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	// With a second name it may be another program's file, which Append must not change.
	if err == nil && (!st.Mode().IsRegular() || st.Sys().(*syscall.Stat_t).Nlink > 1) {
		err = &fs.PathError{Op: "append", Path: d.path(name), Err: errNotRegular}
	}
	if err == nil {
		_, err = f.Write(data)
	}
	return errors.Join(err, f.Close())
}
