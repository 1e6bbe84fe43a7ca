package statefile

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Quotable reports whether errors may quote an open file: all who could have made its name mean this file may read it.
// These are the owners of the links on the way, and for a file with several names whoever may write to its directory.
func Quotable(name string, f *os.File) bool {
	name, err := filepath.Abs(name)
	if err != nil {
		return false
	}
	authors, path, ok := linkers(name)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if now, err2 := os.Lstat(path); err != nil || err2 != nil || !os.SameFile(info, now) {
		return false // the name means another file by now, and other links may have led to this one
	}
	if info.Sys().(*syscall.Stat_t).Nlink > 1 {
		dir, err := os.Stat(filepath.Dir(name))
		if err != nil {
			return false
		}
		authors = append(authors, Writers(dir)...)
	}
	return !slices.ContainsFunc(authors, func(a Author) bool { return !a.MayRead(name, f) })
}

// linkers returns the owners of all symbolic links that a path leads through, but for root, and the path that
// it comes to; false if they cannot be found.
func linkers(path string) (owners []Author, real string, ok bool) {
	at, rest := "/", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		next := filepath.Join(at, part)
		info, err := os.Lstat(next)
		switch {
		case err != nil:
			return nil, "", false
		case info.Mode()&os.ModeSymlink == 0:
			at = next
			continue
		}
		to, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return nil, "", false
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 0 {
			owners = append(owners, User(uid))
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return owners, at, true
}

// Author is a user, or the members of a group.
type Author struct {
	uid    uint32
	groups []uint32
}

// unknownUser stands for those that only the rights of others hold for.
var unknownUser = Author{uid: 1<<32 - 2}

func (a Author) String() string {
	switch {
	case a.uid == unknownUser.uid && len(a.groups) == 0:
		return "everybody"
	case a.uid == unknownUser.uid:
		return fmt.Sprintf("group %d", a.groups[0])
	}
	return fmt.Sprintf("user %d", a.uid)
}

// Writers returns those who may write a file or directory: its owner, its group and all others by its mode.
func Writers(info os.FileInfo) []Author {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return []Author{unknownUser}
	}
	writers := []Author{User(st.Uid)}
	if info.Mode()&0o020 != 0 && st.Gid != 0 { // members of group root count as root
		writers = append(writers, Author{unknownUser.uid, []uint32{st.Gid}})
	}
	if info.Mode()&0o002 != 0 {
		writers = append(writers, unknownUser)
	}
	return writers
}

// User returns a user with its groups.
func User(uid uint32) Author {
	a := Author{uid: uid}
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return a
	}
	ids, err := u.GroupIds()
	if err != nil {
		ids = []string{u.Gid}
	}
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			a.groups = append(a.groups, uint32(n))
		}
	}
	return a
}

// MayRead reports whether somebody may read an open file, and reach it by its name and by the path that it really has.
func (a Author) MayRead(name string, f *os.File) bool {
	if a.uid == 0 {
		return true
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	absolute, err2 := filepath.Abs(name)
	return errors.Join(err, err2) == nil && a.may(info, 4) && a.reaches(real) && a.reaches(absolute)
}

// reaches reports whether all directories of a path may be searched.
func (a Author) reaches(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || !a.may(info, 1) {
			return false
		}
		if dir == "/" || dir == "." {
			return true
		}
	}
}

// may reports whether the mode of a file gives a right, as a bit of the rights of others, to somebody. Lists of access
// control are not looked at: what they give is refused here.
func (a Author) may(info os.FileInfo, right os.FileMode) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return false
	case st.Uid == a.uid:
		right <<= 6
	case slices.Contains(a.groups, st.Gid):
		right <<= 3
	}
	return info.Mode()&right != 0
}
