package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/sources"
)

// MaxSize is the size of the largest file that is read, in bytes: 16 MiB, some 50,000 services. A larger one is a
// mistake (a log, a disk image) and would take the node's memory.
const MaxSize = 16 << 20

// readLimit bounds the time of a read.
const readLimit = 5 * time.Second

// errChanging says that the file was being written while it was read.
var errChanging = errors.New("changes while it is read")

// identity tells a file and its content from another. Times are nanoseconds since 1970.
type identity struct {
	dev, ino              uint64
	size                  int64
	born, written, change int64 // born: 0 if the file system does not say; change: of the inode, as by a rename
}

// stat returns what statx says about an open file, with flags unix.AT_EMPTY_PATH, or about a path if fd is
// unix.AT_FDCWD.
func stat(fd int, path string, flags int) (st unix.Statx_t, err error) {
	err = unix.Statx(fd, path, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME|unix.STATX_MNT_ID, &st)
	if err != nil {
		err = &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	return st, err
}

// statOpen is stat of an open file. File.Fd would end its read deadline.
func statOpen(f *os.File) (st unix.Statx_t, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return st, err
	}
	if e := conn.Control(func(fd uintptr) { st, err = stat(int(fd), "", unix.AT_EMPTY_PATH) }); e != nil {
		return st, e
	}
	return st, err
}

func identityOf(st unix.Statx_t) identity {
	nanoseconds := func(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }
	return identity{
		unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino, int64(st.Size),
		nanoseconds(st.Btime), nanoseconds(st.Mtime), nanoseconds(st.Ctime),
	}
}

// identify returns the identity of the file at a path.
func identify(path string) (identity, error) {
	st, err := stat(unix.AT_FDCWD, path, 0)
	if err != nil {
		return identity{}, err
	}
	return identityOf(st), nil
}

// sameFile reports whether two identities are of one file, whatever its content.
func (i identity) sameFile(o identity) bool {
	return i.dev == o.dev && i.ino == o.ino && i.born == o.born
}

// sure reports whether a file that is read now will have the same content while it has this identity. Times are
// coarse: a file that has just changed may change again without a new one.
func (i identity) sure(now time.Time) bool { return now.Sub(time.Unix(0, i.change)) > time.Second }

// fileTick is the time in which all changes of files have the same time: 1 to 10 ms, as the kernel was built, and one
// more to be sure.
func fileTick() time.Duration {
	var tick unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_REALTIME_COARSE, &tick); err != nil {
		return 11 * time.Millisecond
	}
	return time.Duration(tick.Nano()) + time.Millisecond
}

// Content is what a file has.
type Content struct {
	Data []byte
	// Quotable: problems may quote it. Otherwise, its name leads to a file that the author of the name may not read.
	Quotable bool
}

// Problems are the given ones, or if the content must not be quoted, one that has the place of the first alone.
func (c Content) Problems(all []sources.Problem) []sources.Problem {
	if c.Quotable || len(all) == 0 {
		return all
	}
	first := sources.Problem{Origin: all[0].Origin, Message: unquoted}
	return []sources.Problem{first}
}

const unquoted = "has an error that is not shown: the owner of the link may not read it; put the file itself here"

// read returns the content of a regular file.
func read(path string) look {
	f, err := open(path)
	if err != nil {
		return look{err: err}
	}
	defer f.Close()
	l := readAll(f)
	l.content.Quotable = statefile.Quotable(path, f)
	if real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err == nil {
		l.real = real
		if dir, err := identify(filepath.Dir(real)); err == nil {
			l.renamed = dir.written
		}
	}
	return l
}

// open opens a regular file.
func open(path string) (*os.File, error) {
	// Check before the open, which may have an effect on a device.
	st, err := stat(unix.AT_FDCWD, path, 0)
	if err == nil {
		err = readable(st)
	}
	if err != nil {
		return nil, err
	}
	// Without O_NONBLOCK the open of a FIFO, which may have replaced the file, would wait for a writer.
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// readAll returns the content of a file, and what tells it from another. The error is errChanging if the file was
// written or removed meanwhile.
func readAll(f *os.File) (l look) {
	before, err := statOpen(f)
	if err == nil {
		err = readable(before)
	}
	if err != nil {
		return look{err: err}
	}
	l.id = identityOf(before)
	// The read of some regular files in /proc blocks. Files on disk support no deadline and need none.
	_ = f.SetReadDeadline(time.Now().Add(readLimit))
	l.content.Data = make([]byte, before.Size+1) // one byte more, to notice that it grows
	n, err := io.ReadFull(f, l.content.Data)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return look{id: l.id, err: err}
	}
	after, err := statOpen(f)
	if err != nil {
		return look{id: l.id, err: err}
	}
	now := identityOf(after)
	if int64(n) != l.id.size || now.size != l.id.size || now.written != l.id.written || after.Nlink == 0 {
		return look{id: l.id, err: errChanging}
	}
	l.content.Data = l.content.Data[:n]
	return l
}

// readable says why a file cannot be a services file.
func readable(st unix.Statx_t) error {
	kind := ""
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if st.Size > MaxSize {
			return fmt.Errorf("is %d MiB large: at most %d are read", st.Size>>20, MaxSize>>20)
		}
		return nil
	case unix.S_IFDIR:
		return errors.New("is a directory, not a file")
	case unix.S_IFIFO:
		kind = "a FIFO"
	case unix.S_IFSOCK:
		kind = "a socket"
	default:
		kind = "a device"
	}
	return fmt.Errorf("is not a regular file but %s", kind)
}

// Read tries readTries times to read a file that is being written, with readPause in between. A program takes a
// few milliseconds to save a file.
const (
	readTries = 20
	readPause = 25 * time.Millisecond
)

// Read returns the content of a regular file that is not being written. It waits up to half a second for a
// writer to finish, and never for a FIFO or a device.
func Read(path string) (Content, error) {
	for try := 1; ; try++ {
		l := read(path)
		if !errors.Is(l.err, errChanging) || try == readTries {
			if l.err != nil {
				return l.content, fmt.Errorf("%s: %w", path, cause(l.err))
			}
			return l.content, nil
		}
		time.Sleep(readPause)
	}
}

// RetryAfter is the pause before the next try of a read that failed, 2 s to a minute. It gets the last pause, or 0.
func RetryAfter(pause time.Duration) time.Duration {
	return min(max(2*pause, 2*time.Second), time.Minute)
}

// Passing reports whether the reason why a file could not be read may pass without an event, such as too many open
// files, a lack of memory, or a disk that does not answer.
func Passing(err error) bool {
	var number syscall.Errno
	if !errors.As(err, &number) {
		return false
	}
	switch number {
	case syscall.EACCES, syscall.EPERM, syscall.ENOENT, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP,
		syscall.ENAMETOOLONG:
		return false
	}
	return true
}
