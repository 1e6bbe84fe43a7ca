package iptables

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

func TestShareLock(t *testing.T) {
	kerneltest.Need(t, kerneltest.Users)
	const gid = 65534
	file := func(mode os.FileMode) func(string) error {
		return func(path string) error { return errors.Join(os.WriteFile(path, nil, mode), os.Chmod(path, mode)) }
	}
	for _, c := range []struct {
		what string
		put  func(path string) error
		mode os.FileMode // 0 if it is rejected
	}{
		{"missing", func(string) error { return nil }, 0o640},
		{"root's", file(0o600), 0o640},
		{"everybody's", file(0o644), 0o644},
		{"shared", func(path string) error { return errors.Join(file(0o600)(path), shareLock(path, gid)) }, 0o640},
		{"a folder", func(path string) error { return os.Mkdir(path, 0o700) }, 0},
		{"a FIFO", func(path string) error { return syscall.Mkfifo(path, 0o600) }, 0},
		{"a link", func(path string) error {
			return errors.Join(file(0o600)(path+".victim"), os.Symlink(path+".victim", path))
		}, 0},
		{"a link to nothing", func(path string) error { return os.Symlink(path+".new", path) }, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock")
			if err := c.put(path); err != nil {
				t.Fatal(err)
			}
			err := shareLock(path, gid)
			if c.mode == 0 {
				refused(t, path, err)
				return
			}
			st, statErr := os.Lstat(path)
			if err := errors.Join(err, statErr); err != nil {
				t.Fatal(err)
			}
			is := st.Sys().(*syscall.Stat_t).Gid
			if st.Mode() != c.mode || c.mode == 0o640 && is != gid {
				t.Errorf("it is %v of group %d", st.Mode(), is)
			}
		})
	}
}

// refused checks that there was an error and that the target of a link did not change.
func refused(t *testing.T, path string, err error) {
	t.Helper()
	if err == nil {
		t.Error("no error")
	}
	if st, err := os.Lstat(path + ".victim"); err == nil && st.Mode() != 0o600 {
		t.Errorf("the victim is %v", st.Mode())
	}
	if _, err := os.Lstat(path + ".new"); err == nil {
		t.Error("a file was made where the link leads")
	}
}
