package host

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// DropProgram unmaps the pages of the program's own file. Most of them serve only a start:
// package initialisation, flags, and all of client-go that is not running. The page
// cache keeps them, so a page that is used again costs a minor fault and no reading. Only
// mappings without write permission are dropped: their content is the file's, if the
// program needs no relocation.
func DropProgram() error {
	if !fixed() {
		return nil
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasSuffix(line, " "+program) {
			continue
		}
		var from, to uintptr
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil {
			return fmt.Errorf("read /proc/self/maps: %w", err)
		}
		if strings.Contains(rights, "w") {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("madvise: %w", errno)
		}
	}
	return lines.Err()
}

// fixed reports whether the program was linked for fixed addresses and without C. Others
// have read-only pages that the loader has changed.
func fixed() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	return set["-buildmode"] == "exe" && set["CGO_ENABLED"] == "0"
}
