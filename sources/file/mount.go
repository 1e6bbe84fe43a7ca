package file

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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

// mountID is mountOf a directory. The path has no links. It mounts nothing and asks no server.
func mountID(dir string) (uint64, error) {
	st, err := stat(unix.AT_FDCWD, dir, unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC)
	return mountOf(st), err
}

// mountOf is the number of the mount that a directory is on; that of its device before Linux 5.8.
func mountOf(st unix.Statx_t) uint64 {
	if st.Mask&unix.STATX_MNT_ID != 0 {
		return st.Mnt_id
	}
	return unix.Mkdev(st.Dev_major, st.Dev_minor)
}

// readDir returns the entries of a directory, sorted, and the mount that they are on.
func readDir(dir string) ([]fs.DirEntry, uint64, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	st, err := statOpen(f)
	if err != nil {
		return nil, 0, err
	}
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, mountOf(st), err
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

// awaitsMount reports whether a mount may be missing, or there is one that may go. Neither is an event.
func (l *listing) awaitsMount() bool {
	if len(l.missing) > 0 || len(l.absent) > 0 {
		return true
	}
	for _, id := range l.ids {
		if id != l.ids["/"] {
			return true
		}
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

// lostMounts returns those directories without files that are on another mount than their files were, and notes in was
// the mounts of those with files. One that was missing may come back on any mount: it was made again, without files.
func (l *listing) lostMounts(was map[string]mount) (dirs []string) {
	for _, dir := range l.absent {
		delete(was, dir)
	}
	for _, dir := range slices.Sorted(maps.Keys(l.mounts)) {
		before, known := was[dir]
		if now := l.mounts[dir]; l.holds(dir) {
			was[dir] = now
		} else if known && !before.same(now) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// remountPause is how often to look for a mount or its end, which cause no event.
const remountPause = 5 * time.Second

// remount has everything listed again if a file system was mounted or unmounted, if that is due.
func (f *follower) remount(now time.Time) {
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

func (f *follower) awaitsMount() bool {
	return f.o.Watch && f.listing != nil && f.listing.awaitsMount()
}
