package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// maxSize is the largest file that is read: 64 MiB, some 100,000 services. What is larger is a mistake
// (a log, a disk image), and is not worth the node's memory.
const maxSize = 64 << 20

// readLimit is how long a file may keep us waiting.
const readLimit = 5 * time.Second

// errChanging says that the file was being written while it was read.
var errChanging = errors.New("changes while it is read")

// identity tells a file, and what is in it, from another.
type identity struct {
	dev, ino   uint64
	size       int64
	mtim, ctim syscall.Timespec
}

func identityOf(info fs.FileInfo) identity {
	st := info.Sys().(*syscall.Stat_t)
	return identity{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtim: st.Mtim, ctim: st.Ctim}
}

// identify is the identity of the file that a path leads to.
func identify(path string) (identity, error) {
	info, err := os.Stat(path)
	if err != nil {
		return identity{}, err
	}
	return identityOf(info), nil
}

func (i identity) mtime() time.Time { return time.Unix(i.mtim.Unix()) }

// sameFile says whether two are of one file, whatever was in it.
func (i identity) sameFile(o identity) bool { return i.dev == o.dev && i.ino == o.ino }

// sure says whether a file that was read now and has this identity later has the same content. One that
// changed just before may change again at the same time, as file systems have it.
func (i identity) sure(now time.Time) bool { return now.Sub(time.Unix(i.ctim.Unix())) > time.Second }

// read gives the content of a regular file that nobody is writing.
func read(path string) ([]byte, identity, error) {
	var id identity
	// Asked before opening, which on a device may do something.
	if info, err := os.Stat(path); err != nil {
		return nil, id, err
	} else if err := readable(info); err != nil {
		return nil, id, err
	}
	// A FIFO that comes between the two must not block, nor its open wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, id, err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return nil, id, err
	}
	if err := readable(before); err != nil {
		return nil, id, err
	}
	id = identityOf(before)
	// There are regular files, in /proc, whose read waits for something to happen. Those of a disk have no
	// deadline, and no need of one.
	_ = f.SetReadDeadline(time.Now().Add(readLimit))
	data := make([]byte, before.Size()+1) // one more, to see it grow
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

// readable says why a file is not read at all.
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
