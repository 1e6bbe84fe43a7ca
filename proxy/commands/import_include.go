package commands

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

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
	authors := []reader{root}
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

// readIncluded returns the content of a file; nil if keepalived does not include it: it includes regular files that are no
// programs. The rights are those of the file that is open: its name may mean another one a moment later.
func readIncluded(name string, authors []reader) ([]byte, error) {
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
		if !a.canRead(name, f, info) {
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

// reader is somebody who may read files: a user, or members of a group alone.
type reader struct {
	uid    uint32
	groups []uint32
}

// root reads everything. nobody stands for those that only the rights of others hold for.
var (
	root   = reader{}
	nobody = reader{uid: 1<<32 - 2, groups: nil}
)

func (r reader) String() string {
	switch {
	case r.uid == nobody.uid && len(r.groups) == 0:
		return "everybody"
	case r.uid == nobody.uid:
		return fmt.Sprintf("group %d", r.groups[0])
	}
	return fmt.Sprintf("user %d", r.uid)
}

// writersOf returns those who may write a configuration: its owner, its group and all others by its mode. A pipe is its
// maker's own.
func (i include) writersOf(name string) []reader {
	stat := func() (os.FileInfo, error) { return os.Stat(name) }
	if name == standardInput && i.in != nil {
		stat = i.in.Stat
	}
	info, err := stat()
	if err != nil {
		return []reader{userOf(uint32(os.Getuid()))}
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return []reader{nobody}
	}
	writers := []reader{userOf(st.Uid)}
	if info.Mode()&0o020 != 0 && st.Gid != 0 { // members of group root count as root
		writers = append(writers, reader{nobody.uid, []uint32{st.Gid}})
	}
	if info.Mode()&0o002 != 0 {
		writers = append(writers, nobody)
	}
	return writers
}

// userOf returns a user with its groups.
func userOf(uid uint32) reader {
	r := reader{uid: uid}
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return r
	}
	ids, err := u.GroupIds()
	if err != nil {
		ids = []string{u.Gid}
	}
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			r.groups = append(r.groups, uint32(n))
		}
	}
	return r
}

// canRead reports whether somebody may read an open file, and reach it by its name and by the path that it really has.
func (r reader) canRead(name string, f *os.File, info os.FileInfo) bool {
	if r.uid == root.uid {
		return true
	}
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	absolute, err2 := filepath.Abs(name)
	return errors.Join(err, err2) == nil && r.may(info, 4) && r.reaches(real) && r.reaches(absolute)
}

// reaches reports whether all directories of a path may be searched.
func (r reader) reaches(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || !r.may(info, 1) {
			return false
		}
		if dir == "/" || dir == "." {
			return true
		}
	}
}

// may reports whether the mode of a file gives a right, as a bit of the rights of others, to somebody. Lists of access
// control are not looked at: what they give is refused here.
func (r reader) may(info os.FileInfo, right os.FileMode) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return false
	case st.Uid == r.uid:
		right <<= 6
	case slices.Contains(r.groups, st.Gid):
		right <<= 3
	}
	return info.Mode()&right != 0
}
