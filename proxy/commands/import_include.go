package commands

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/sources/convert"
)

// include opens the files that a configuration includes, as keepalived finds them.
type include struct {
	// guarded: a file is read only if whoever may write the including one may read it, too. Else the author of a
	// configuration could have root show him any file.
	guarded bool
	in      *os.File // what a configuration from standard input comes from
}

func (i include) open(pattern, from string) ([]convert.File, error) {
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(filepath.Dir(from), pattern)
	}
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pattern, err)
	}
	if len(names) == 0 && !strings.ContainsAny(pattern, "*?[") {
		return nil, fmt.Errorf("%s: %w", pattern, os.ErrNotExist)
	}
	var authors []statefile.Author
	if i.guarded {
		authors = i.writersOf(from)
	}
	var files []convert.File
	for _, name := range names {
		if strings.HasPrefix(filepath.Base(name), ".") && !strings.HasPrefix(filepath.Base(pattern), ".") {
			continue
		}
		f, err := readIncluded(name, authors)
		switch {
		case err != nil:
			files = append(files, convert.File{Name: name, Err: err})
		case f != nil:
			files = append(files, convert.File{Name: name, Data: f, Dir: absoluteDir(name)})
		}
	}
	return files, nil
}

// absoluteDir returns the absolute directory of a file; "" if it is not known.
func absoluteDir(name string) string {
	name, err := filepath.Abs(name)
	if err != nil {
		return ""
	}
	return filepath.Dir(name)
}

// readIncluded returns the content of a file; nil if keepalived does not include it: it includes regular
// files that are no programs. The rights are those of the file that is open: its name may mean another one a
// moment later.
func readIncluded(name string, authors []statefile.Author) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 != 0 {
		return nil, err
	}
	for _, a := range authors {
		if !a.MayRead(name, f) {
			return nil, fmt.Errorf("%s may write the file that includes %s, and may not read it", a, name)
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxImport+1))
	if err == nil && len(data) > maxImport {
		err = fmt.Errorf("%s: longer than %d MiB", name, maxImport>>20)
	}
	if data == nil {
		data = []byte{}
	}
	return data, err
}

// writersOf returns those who may write a configuration. A pipe is its maker's own.
func (i include) writersOf(name string) []statefile.Author {
	info, err := os.Stat(name)
	if name == standardInput && i.in != nil {
		info, err = i.in.Stat()
	}
	if err != nil {
		return []statefile.Author{statefile.User(uint32(os.Getuid()))}
	}
	return statefile.Writers(info)
}
