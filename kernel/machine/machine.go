// Package machine reads what surrounds svcproxy on this machine: modules, kernel parameters, processes,
// links, counters of dropped packets, folders, the clock and the systemd unit. It also starts the programs
// that the operator names, without svcproxy's capabilities.
//
// It needs no capability. What cannot be read is listed in Lacks.
package machine

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Facts are one reading. The zero value of a field means that it is not known, or that there
// is nothing.
type Facts struct {
	Now     time.Time
	Release string // "6.1.0-18-amd64"
	// Unbooted: modules are installed, but none of the running kernel.
	Unbooted  bool
	Modules   Modules
	Sysctls   map[string]string // by dotted name
	Links     []Link
	Processes []Process
	// Before and After are counters at the start and at the end of Window.
	Before, After Counters
	Window        time.Duration
	ConnTabBits   int // of IPVS; 0 if it is not known
	Clock         Clock
	Unit          Unit
	Folders       []Folder
	Lacks         []Lack
}

// Lack is what could not be read, and why: "permission denied".
type Lack struct{ What, Why string }

// Options say what to read.
type Options struct {
	// Root is put in front of all paths; "" is this machine.
	Root    string
	Sysctls []string
	Folders []string
	Unit    string // "svcproxy.service"
	// Window is the time between two readings of the counters; 0 reads them once.
	Window time.Duration
}

// Read reads this machine.
func Read(o Options) Facts {
	r := reader{o: o}
	f := Facts{Now: time.Now(), Before: r.counters(), Window: o.Window}
	end := f.Now.Add(o.Window)
	f.Release = r.text("/proc/sys/kernel/osrelease")
	f.Modules, f.Unbooted = r.modules(f.Release), r.unbooted(f.Release)
	f.Sysctls = map[string]string{}
	f.Links = r.links()
	for _, name := range o.Sysctls {
		r.sysctl(&f, name)
	}
	for _, l := range f.Links {
		for _, name := range PerLink(l.Name) {
			r.sysctl(&f, name)
		}
	}
	f.Processes = r.processes()
	f.ConnTabBits = r.number("/sys/module/ip_vs/parameters/conn_tab_bits")
	f.Unit = r.unit()
	for _, path := range o.Folders {
		f.Folders = append(f.Folders, r.folder(path))
	}
	f.Clock = r.clock(f.Processes)
	time.Sleep(time.Until(end))
	f.After, f.Lacks = r.counters(), r.lacks
	return f
}

// PerLink are the kernel parameters of a link that a reading has.
func PerLink(link string) []string {
	prefix := "net.ipv4.conf." + strings.ReplaceAll(link, ".", "/") + "."
	return []string{prefix + "arp_ignore", prefix + "forwarding", prefix + "rp_filter"}
}

// reader reads below a root.
type reader struct {
	o     Options
	lacks []Lack
}

func (r *reader) path(p string) string { return filepath.Join(r.o.Root, p) }

// text returns a file of one line, "" if it cannot be read.
func (r *reader) text(path string) string {
	b, err := os.ReadFile(r.path(path))
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(b)), " ")
}

// sysctl reads a kernel parameter. As in sysctl(8), a slash stands for a dot inside a part.
func (r *reader) sysctl(f *Facts, name string) {
	swapped := strings.NewReplacer(".", "/", "/", ".").Replace(name)
	b, err := os.ReadFile(r.path("/proc/sys/" + swapped))
	if os.IsPermission(err) {
		r.lacks = append(r.lacks, Lack{"kernel parameter " + name, "permission denied"})
	}
	if err == nil {
		f.Sysctls[name] = strings.Join(strings.Fields(string(b)), " ")
	}
}

// lines returns the lines of a file; none if it cannot be read.
func (r *reader) lines(path string) []string {
	b, err := os.ReadFile(r.path(path))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(string(b), "\n"), "\n")
}
