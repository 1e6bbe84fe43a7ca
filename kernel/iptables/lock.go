package iptables

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// lockFile is the file that the legacy tools lock before they write. Root's tools create it with
// mode 0600. To lock it, a tool must be able to open it for reading.
const lockFile = "/run/xtables.lock"

// ShareLock lets members of a group use the lock of the legacy back end, as the package's
// tmpfiles.d does at boot. It needs root. The nft back end has no lock, and ShareLock does nothing
// unless there are legacy tables as well.
func (t *Tables) ShareLock(gid int) error {
	for _, f := range slices.Concat(t.families, t.others) {
		inUse, _ := os.ReadFile(layouts[f.Family].names)
		if !f.tool.NFT && (!f.other || len(inUse) > 0) {
			return shareLock(lockFile, gid)
		}
	}
	return nil
}

// shareLock makes path a file that the group may read. It does not follow a link.
func shareLock(path string, gid int) error {
	failed := func(err error) error {
		return fmt.Errorf("letting group %d use the lock of iptables-legacy: %w", gid,
			&fs.PathError{Op: "open", Path: path, Err: err})
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return failed(err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return failed(errors.New("not a regular file"))
	case st.Mode&0o004 != 0, st.Mode&0o040 != 0 && int(st.Gid) == gid:
		return nil
	}
	if err := unix.Fchown(fd, -1, gid); err != nil {
		return failed(err)
	}
	if err := unix.Fchmod(fd, 0o640); err != nil {
		return failed(err)
	}
	return nil
}
