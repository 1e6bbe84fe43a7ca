package machine

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Modules are the modules of the kernel. Names have underscores: ip_vs_rr.
type Modules struct {
	Loaded map[string]bool // also those that are built in
	// Files are the modules that could be loaded. Known is false if the list could not be read.
	Files map[string]bool
	Known bool
	// Barred are the modules that something keeps from being loaded: what it is by module, the path of a file of
	// modprobe.d or a boot parameter.
	Barred map[string]string
}

// ReadModules reads the modules of the kernel that runs.
func ReadModules() Modules {
	r := new(reader)
	return r.modules(r.text("/proc/sys/kernel/osrelease"))
}

// Lacks reports whether a module is not loaded and cannot be, as far as files say.
func (m Modules) Lacks(name string) bool {
	return !m.Loaded[name] && (m.Known && !m.Files[name] || m.Barred[name] != "")
}

func (r *reader) modules(release string) Modules {
	m := Modules{Loaded: map[string]bool{}, Files: map[string]bool{}, Barred: r.barred()}
	loaded, _ := os.ReadDir(r.path("/sys/module"))
	for _, e := range loaded {
		m.Loaded[e.Name()] = true
	}
	dir := "/lib/modules/" + release
	for _, name := range []string{"modules.dep", "modules.builtin"} {
		for _, line := range r.lines(filepath.Join(dir, name)) {
			path, _, _ := strings.Cut(line, ":")
			file, _, ok := strings.Cut(filepath.Base(path), ".ko")
			if !ok {
				continue
			}
			module := strings.ReplaceAll(file, "-", "_")
			m.Files[module], m.Known = true, true
			if name == "modules.builtin" {
				m.Loaded[module] = true
			}
		}
	}
	return m
}

// barred reads the boot parameter module_blacklist, and in modprobe.d lines install MODULE /bin/false or /bin/true. A
// line blacklist MODULE only makes modprobe ignore aliases, and the unit loads its modules by name.
func (r *reader) barred() map[string]string {
	found := map[string]string{}
	for word := range strings.FieldsSeq(r.text("/proc/cmdline")) {
		if names, ok := strings.CutPrefix(word, "module_blacklist="); ok {
			for name := range strings.SplitSeq(names, ",") {
				found[strings.ReplaceAll(name, "-", "_")] = "the boot parameter module_blacklist"
			}
		}
	}
	for _, dir := range []string{"/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"} {
		files, _ := filepath.Glob(r.path(dir) + "/*.conf")
		for _, file := range files {
			path := filepath.Join(dir, filepath.Base(file))
			for _, line := range r.lines(path) {
				w := strings.Fields(line)
				if len(w) > 2 && w[0] == "install" && slices.Contains([]string{"false", "true"}, filepath.Base(w[2])) {
					found[strings.ReplaceAll(w[1], "-", "_")] = path
				}
			}
		}
	}
	return found
}

// unbooted reports whether modules are installed, but none of a release.
func (r *reader) unbooted(release string) bool {
	if _, err := os.Stat(r.path("/lib/modules/" + release)); !os.IsNotExist(err) {
		return false
	}
	installed, _ := os.ReadDir(r.path("/lib/modules"))
	return len(installed) > 0
}

// number returns the number in a file, 0 if there is none.
func (r *reader) number(path string) int {
	n, _ := strconv.Atoi(r.text(path))
	return n
}
