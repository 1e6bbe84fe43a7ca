package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// modulesLimit ends a modprobe that hangs. The kernel loads on demand what is missing then.
const modulesLimit = 10 * time.Second

// LoadModules loads the modules that the kernel does not have yet, by one run of modprobe. Two at once would
// use more processor time, since both load what their modules depend on, and would not end sooner (Linux
// 6.1). The kernel would load each module on demand, by a program of its own, in the middle of the first
// sync. LoadModules runs nothing if the kernel has them all, or if this process may not load modules: the
// unit's modprobe has loaded them then. There is no error: a module that the kernel lacks may not be needed,
// and whatever needs it reports that.
func LoadModules(ctx context.Context, names []string) {
	if !mayLoadModules() {
		return
	}
	if argv := loader("/", names); argv != nil {
		ctx, cancel := context.WithTimeout(ctx, modulesLimit)
		defer cancel()
		_ = exec.CommandContext(ctx, argv[0], argv[1:]...).Run()
	}
}

// loader returns the command that loads the modules which are neither loaded nor built in; nil without any, or if the
// running kernel has no modules below root. The program is the one that the kernel itself would run.
func loader(root string, names []string) (argv []string) {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return nil
	}
	builtIn, err := os.ReadFile(filepath.Join(root, "lib/modules", unix.ByteSliceToString(name.Release[:]),
		"modules.builtin"))
	program, err2 := os.ReadFile(filepath.Join(root, "proc/sys/kernel/modprobe"))
	modprobe := strings.TrimSpace(string(program))
	if err != nil || err2 != nil || modprobe == "" {
		return nil
	}
	absent := slices.DeleteFunc(slices.Clone(names), func(module string) bool {
		_, err := os.Stat(filepath.Join(root, "sys/module", module))
		return !errors.Is(err, fs.ErrNotExist) || strings.Contains(string(builtIn), "/"+module+".ko")
	})
	if len(absent) == 0 {
		return nil
	}
	return append([]string{modprobe, "-qa"}, absent...)
}

// mayLoadModules reports whether this process has CAP_SYS_MODULE.
func mayLoadModules() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_MODULE) != 0
}
