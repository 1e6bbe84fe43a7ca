package file

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// If a file system is unmounted, an empty directory is left: its files seem to have left it. So each directory that
// files were found in is kept with its mount. If all of its files are gone and it is on another mount, it counts as
// missing. Files that leave a directory on the same mount take their services away.

// mount is where a directory is mounted. The number ends with the mount; an umount is known by it, also of a bind
// mount of the same device. The mount point is the same after a reboot, which numbers of mounts and devices are not.
type mount struct {
	id    uint64 // 0: of an earlier run, whose numbers mean nothing
	point string
}

func (m mount) same(o mount) bool {
	return m.point == o.point && (m.id == o.id || m.id == 0 || o.id == 0)
}

// oPath is O_PATH, which package syscall lacks. With it an open reads nothing and mounts nothing.
const oPath = 0x200000

// mountID is the number of the mount that a directory is on. The path has no links.
func mountID(dir string) (uint64, error) {
	fd, err := syscall.Open(dir, oPath|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer syscall.Close(fd)
	return mountOf(fd)
}

// mountOf is mountID of an open directory. Without /proc it is the number of the device.
func mountOf(fd int) (uint64, error) {
	about, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for line := range strings.Lines(string(about)) {
		if number, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.ParseUint(strings.TrimSpace(number), 10, 64)
		}
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return 0, os.NewSyscallError("fstat", err)
	}
	return uint64(st.Dev), nil
}

// readDir returns the entries of a directory, sorted, and the mount that they are on.
func readDir(dir string) ([]fs.DirEntry, uint64, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	id, err := mountOf(int(f.Fd()))
	if err != nil {
		return nil, 0, err
	}
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, id, err
}

// mounted notes the mount of a directory that may have files: its name as configured, and its real path.
func (l *listing) mounted(dir, real string, id uint64) {
	point := real
	for point != "/" && l.ids[filepath.Dir(point)] == id {
		point = filepath.Dir(point)
	}
	l.mounts[dir] = mount{id, point}
}

// place is mounted for a directory on the way to which there is a glob, and in which there is none.
func (l *listing) place(dir string) {
	if _, known := l.mounts[dir]; known {
		return
	}
	if real, err := l.follow("/", components(dir), 0); err == nil && l.ids[real] != 0 {
		l.mounted(dir, real, l.ids[real])
	}
}

// holds reports whether files were found in a directory, or below it.
func (l *listing) holds(dir string) bool {
	above := strings.TrimSuffix(dir, "/") + "/"
	i, _ := slices.BinarySearch(l.files, above)
	return i < len(l.files) && strings.HasPrefix(l.files[i], above)
}

// lacks reports whether a mount may be missing.
func (l *listing) lacks() bool {
	if len(l.missing) > 0 || len(l.absent) > 0 {
		return true
	}
	for dir := range l.mounts {
		if !l.holds(dir) {
			return true
		}
	}
	return false
}

// remounted reports whether a directory is on another mount than when it was listed.
func (l *listing) remounted(dir string) bool {
	id, err := mountID(dir)
	return err == nil && id != l.ids[dir]
}

// elsewhere returns those directories without files that are on another mount than their files were, and notes the
// mounts of those with files. One that was missing may come back on any mount: it was made again, without files.
func (s *store) elsewhere(l *listing) (dirs []string) {
	for _, dir := range l.absent {
		delete(s.mounts, dir)
	}
	for _, dir := range slices.Sorted(maps.Keys(l.mounts)) {
		was, known := s.mounts[dir]
		if now := l.mounts[dir]; l.holds(dir) {
			s.mounts[dir] = now
		} else if known && !was.same(now) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// mountPoints are those of the directories that had files, to be kept for the next start.
func (s *store) mountPoints() map[string]string {
	points := make(map[string]string, len(s.mounts))
	for dir, m := range s.mounts {
		points[dir] = m.point
	}
	return points
}

// remountPause is how often to look for a mount, which causes no event, while files or directories are missing.
const remountPause = 5 * time.Second

// awaitsMount reports whether to look for a mount.
func (f *follower) awaitsMount() bool { return f.o.Watch && f.listing != nil && f.listing.lacks() }

// remount has everything listed again if a file system was mounted or unmounted, if that is due.
func (f *follower) remount() {
	now := f.store.now()
	if !f.awaitsMount() || now.Before(f.mountsAt) {
		return
	}
	f.mountsAt = now.Add(f.o.remount)
	for dir := range f.listing.ids {
		if f.listing.remounted(dir) {
			f.relist = true
			return
		}
	}
}
