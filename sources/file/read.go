package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/author"
)

// maxSize is the size of the largest file that is read, in bytes: 16 MiB, some 50,000 services. A larger one is a mistake
// (a log, a disk image) and would take the node's memory.
const maxSize = 16 << 20

// readLimit bounds the time of a read.
const readLimit = 5 * time.Second

// errChanging says that the file was being written while it was read.
var errChanging = errors.New("changes while it is read")

// identity tells a file and its content from another.
type identity struct {
	dev, ino   uint64
	size       int64
	mtim, ctim syscall.Timespec
}

func identityOf(info fs.FileInfo) identity {
	st := info.Sys().(*syscall.Stat_t)
	return identity{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtim: st.Mtim, ctim: st.Ctim}
}

// identify returns the identity of the file at a path.
func identify(path string) (identity, error) {
	info, err := os.Stat(path)
	if err != nil {
		return identity{}, err
	}
	return identityOf(info), nil
}

func (i identity) mtime() time.Time { return time.Unix(i.mtim.Unix()) }

// sameFile says whether two identities are of one file, whatever its content.
func (i identity) sameFile(o identity) bool { return i.dev == o.dev && i.ino == o.ino }

// sure says whether a file that is read now will have the same content while it has this identity. Time stamps
// are coarse: a file that has just changed may change again without a new one.
func (i identity) sure(now time.Time) bool { return now.Sub(time.Unix(i.ctim.Unix())) > time.Second }

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

const unquoted = "has a mistake that is not shown: whoever linked it here may not read it; put the file itself here"

// read returns the content of a regular file. errChanging says that it was written meanwhile.
func read(path string) (c Content, id identity, err error) {
	f, err := open(path)
	if err != nil {
		return c, id, err
	}
	defer f.Close()
	c.Data, id, err = readAll(f)
	c.Quotable = author.Quotable(path, f)
	return c, id, err
}

// open opens a regular file.
func open(path string) (*os.File, error) {
	// Check before the open, which may have an effect on a device.
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if err := readable(info); err != nil {
		return nil, err
	}
	// Without O_NONBLOCK the open of a FIFO, which may have replaced the file, would wait for a writer.
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// readAll returns the content of a file, and what tells it from another.
func readAll(f *os.File) (data []byte, id identity, err error) {
	before, err := f.Stat()
	if err != nil {
		return nil, id, err
	}
	if err := readable(before); err != nil {
		return nil, id, err
	}
	id = identityOf(before)
	// The read of some regular files in /proc blocks. Files on disk support no deadline and need none.
	_ = f.SetReadDeadline(time.Now().Add(readLimit))
	data = make([]byte, before.Size()+1) // one byte more, to notice that it grows
	n, err := io.ReadFull(f, data)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, id, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, id, err
	}
	if int64(n) != before.Size() || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return nil, id, errChanging
	}
	return data[:n], id, nil
}

// readable says why a file cannot be a services file.
func readable(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return errors.New("is a directory, not a file")
	case !mode.IsRegular():
		return fmt.Errorf("is not a regular file but %s", special(mode))
	case info.Size() > maxSize:
		return fmt.Errorf("is %d MiB large: at most %d are read", info.Size()>>20, maxSize>>20)
	}
	return nil
}

func special(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "of another kind"
}
