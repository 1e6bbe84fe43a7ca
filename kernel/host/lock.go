package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrRunning says that another svcproxy runs in this network namespace.
var ErrRunning = errors.New("svcproxy runs already in this network namespace")

// Lock keeps a second svcproxy out of this network namespace. It is gone with
// the process, however that ends.
type Lock struct{ f *os.File }

// AcquireLock takes the lock, a file in dir named after the network namespace
// of the process, or gives ErrRunning.
func AcquireLock(dir string) (*Lock, error) {
	ns, err := namespaceID()
	if err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	path := filepath.Join(dir, fmt.Sprintf("lock.%d", ns))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return &Lock{f}, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, ErrRunning
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}

// Release gives the lock back. The file stays: to remove it would let two
// processes hold locks on two files of one name.
func (l *Lock) Release() error { return l.f.Close() }

// namespaceID is the inode of the network namespace.
func namespaceID() (uint64, error) {
	st, err := os.Stat("/proc/self/ns/net")
	if err != nil {
		return 0, err
	}
	return st.Sys().(*syscall.Stat_t).Ino, nil
}
