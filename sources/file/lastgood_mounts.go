package file

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel/statefile"
)

// mountsFormat is one line of the record of mount points, for example:
//
//	"/etc/svcproxy/services.d" on "/etc/svcproxy/services.d"
const mountsFormat = "%q on %q\n"

// maxMounts bounds the record, in bytes: some thousand directories.
const maxMounts = 16 << 20

func (s LastGood) mountsFile() string { return s.Dir + ".mounts" }

// KeepMountPoints records, by directory of the files, where its file system was mounted. The record is not a
// copy: it is a file next to the LastGood's directory.
func (s LastGood) KeepMountPoints(points map[string]string) error {
	var b strings.Builder
	for _, dir := range slices.Sorted(maps.Keys(points)) {
		fmt.Fprintf(&b, mountsFormat, dir, points[dir])
	}
	if err := statefile.Write(s.mountsFile(), []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("keeping the mount points: %w", err)
	}
	return nil
}

// MountPoints returns what KeepMountPoints recorded. A record that is missing is empty.
func (s LastGood) MountPoints() (map[string]string, error) {
	data, err := statefile.Read(s.mountsFile(), maxMounts)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the mount points: %w", err)
	}
	points := map[string]string{}
	for line := range strings.Lines(string(data)) {
		var dir, point string
		if _, err := fmt.Sscanf(line, mountsFormat, &dir, &point); err != nil {
			return nil, &DamagedError{s.mountsFile(), "has a line that is not as it was written"}
		}
		points[dir] = point
	}
	return points, nil
}
