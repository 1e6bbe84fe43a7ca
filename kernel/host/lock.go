package host

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// RunningError says that another svcproxy is already running in this network namespace.
type RunningError struct {
	PID int // 0 if it is not visible from this pid namespace
}

// Error names the process, if it is known.
func (e *RunningError) Error() string {
	const text = "svcproxy is already running in this network namespace"
	if e.PID == 0 {
		return text
	}
	return fmt.Sprintf("%s (pid %d)", text, e.PID)
}

// Lock prevents a second svcproxy in this network namespace, whatever directories it
// uses. It ends with the process.
//
// It is a listening abstract unix socket, since the kernel keeps these by network
// namespace. The name has a random part, so that an unprivileged process cannot take it
// first. A process that wants the lock opens its own socket, then connects to the others
// of such names and asks the kernel for their owners. A socket of another user without
// CAP_NET_ADMIN is ignored.
type Lock struct{ l *net.UnixListener }

// lockPrefix is the start of the sockets' names.
const lockPrefix = "@svcproxy/lock/"

// lockTries is how often AcquireLock tries. Two processes that start at once see each
// other and both withdraw; then one of them tries first.
const lockTries = 3

// AcquireLock takes the lock of the calling thread's network namespace. The error is a
// *RunningError if another process has it.
func AcquireLock() (*Lock, error) {
	for try := 1; ; try++ {
		l, err := tryLock()
		var running *RunningError
		if !errors.As(err, &running) || try == lockTries {
			return l, err
		}
		time.Sleep(20*time.Millisecond + mathrand.N(80*time.Millisecond))
	}
}

func tryLock() (*Lock, error) {
	var random [8]byte
	rand.Read(random[:])
	own := lockPrefix + hex.EncodeToString(random[:])
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: own, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	names, err := lockSockets()
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("locking: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == own })
	for _, holder := range holders(names) {
		if holder.isProxy() {
			l.Close()
			return nil, &RunningError{int(holder.Pid)}
		}
	}
	go accept(l)
	return &Lock{l}, nil
}

// Release releases the lock.
func (l *Lock) Release() error { return l.l.Close() }

// accept accepts and closes connections, so that the queue has room for the next.
func accept(l *net.UnixListener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no file descriptors left
			time.Sleep(time.Second)
			continue
		}
		c.Close()
	}
}

// lockSockets lists the sockets of such names that listen in the calling thread's
// network namespace.
func lockSockets() ([]string, error) {
	f, err := os.Open("/proc/thread-self/net/unix")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseSockets(f)
}

// parseSockets reads /proc/net/unix. Any process can create a name with any bytes, so it
// accepts only names of our form.
func parseSockets(r io.Reader) ([]string, error) {
	var names []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Fields(lines.Text()) // Num RefCount Protocol Flags Type St Inode Path
		if len(f) != 8 {
			continue
		}
		const listens = 1 << 16 // __SO_ACCEPTCON
		flags, err := strconv.ParseUint(f[3], 16, 32)
		random, ours := strings.CutPrefix(f[7], lockPrefix)
		if _, bad := hex.DecodeString(random); err == nil && flags&listens != 0 && ours && bad == nil {
			names = append(names, f[7])
		}
	}
	return names, lines.Err()
}

// holder is a process that listens on a socket.
type holder unix.Ucred

// holders asks the kernel which processes listen. A daemon accepts connections at once,
// but a full queue proves no daemon: any process can fill the queue of its own socket.
func holders(names []string) []holder {
	var all []holder
	const tries = 5
	for try := range tries {
		var full []string
		for _, name := range names {
			cred, err := peer(name)
			if err == nil {
				all = append(all, holder(*cred))
			} else if err == unix.EAGAIN {
				full = append(full, name)
			}
		}
		if len(full) == 0 {
			break
		}
		names = full
		time.Sleep(time.Duration(try) * 20 * time.Millisecond)
	}
	return all
}

func peer(name string) (*unix.Ucred, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return nil, err
	}
	return unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
}

// isProxy reports whether the process may be svcproxy: it is root's or our own user's, or
// it has CAP_NET_ADMIN. Without any of these it could not serve.
func (h holder) isProxy() bool {
	if h.Uid == 0 || int(h.Uid) == os.Geteuid() {
		return true
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.Pid))
	return err == nil && administers(string(text), h.Uid)
}

// administers reads /proc/PID/status. The user must be the one of the socket, since
// another process may have that number by now.
func administers(status string, uid uint32) bool {
	var user, capable bool
	for line := range strings.Lines(status) {
		f := strings.Fields(line)
		switch {
		case len(f) == 5 && f[0] == "Uid:":
			user = f[2] == strconv.FormatUint(uint64(uid), 10)
		case len(f) == 2 && f[0] == "CapEff:":
			caps, err := strconv.ParseUint(f[1], 16, 64)
			capable = err == nil && caps&(1<<unix.CAP_NET_ADMIN) != 0
		}
	}
	return user && capable
}
