package host

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ourName is the name of our process, and begins the name of our unit.
const ourName = "svcproxy"

// Where processes and control groups are. Tests have their own.
var (
	procDir    = "/proc"
	cgroupDirs = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}
)

// programs are the processes and units that have sockets.
type programs struct {
	processes map[uint32][]process // by the inode of the socket
	units     map[uint64]string    // the path of a control group by its id
}

type process struct {
	pid  int
	name string
}

// ownersOf finds the programs of some sockets.
func ownersOf(sockets []socket) programs {
	p := programs{processes: map[uint32][]process{}, units: map[uint64]string{}}
	unknown := map[uint64]bool{}
	for _, s := range sockets {
		p.processes[s.inode] = nil
	}
	p.readProcesses()
	for _, s := range sockets {
		if len(p.processes[s.inode]) == 0 && s.cgroup != 0 {
			unknown[s.cgroup] = true
		}
	}
	if len(unknown) > 0 {
		p.readUnits(unknown)
	}
	return p
}

// readProcesses looks at the open files of all processes that may be asked.
func (p *programs) readProcesses() {
	links, _ := filepath.Glob(procDir + "/[0-9]*/fd/*")
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue // closed since, or of a process that may not be asked
		}
		number, isSocket := strings.CutPrefix(strings.TrimSuffix(target, "]"), "socket:[")
		inode, err := strconv.ParseUint(number, 10, 32)
		if err != nil || !isSocket {
			continue
		}
		have, wanted := p.processes[uint32(inode)]
		if !wanted {
			continue
		}
		dir := filepath.Dir(filepath.Dir(link))
		pid, _ := strconv.Atoi(filepath.Base(dir))
		name, err := os.ReadFile(dir + "/comm")
		if err == nil {
			p.processes[uint32(inode)] = append(have, process{pid, strings.TrimSpace(string(name))})
		}
	}
}

// readUnits finds the paths of control groups of version 2. The id of one is the inode of its directory.
func (p *programs) readUnits(ids map[uint64]bool) {
	for _, root := range cgroupDirs {
		if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
			continue // of version 1
		}
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil
			}
			if info, err := d.Info(); err == nil && ids[inodeOf(info)] {
				p.units[inodeOf(info)] = strings.TrimPrefix(path, root)
			}
			return nil
		})
	}
}

// inodeOf returns the inode of a file.
func inodeOf(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}

// isOurs reports whether a socket is of a svcproxy: of this process or, for a command, of the running one. What systemd
// keeps over a restart for mode userspace is in the control group in which it was made.
func (p *programs) isOurs(s *socket) bool {
	for _, h := range p.processes[s.inode] {
		if h.pid == os.Getpid() || h.name == ourName {
			return true
		}
	}
	return len(p.processes[s.inode]) == 0 && strings.HasPrefix(p.unit(s), ourName)
}

// unit is the last part of the path of a socket's control group: "ssh.service".
func (p *programs) unit(s *socket) string {
	path := p.units[s.cgroup]
	if path == "" {
		return ""
	}
	return filepath.Base(path)
}

// name says whose a socket is. systemd has the sockets of programs that it starts for the first connection; the program
// says more.
func (p *programs) name(s *socket) string {
	var best process
	for _, h := range p.processes[s.inode] {
		if best.pid <= 1 || h.pid > 1 && h.pid < best.pid {
			best = h
		}
	}
	unit := p.unit(s)
	switch {
	case best.pid != 0:
		return fmt.Sprintf("%s (pid %d)", best.name, best.pid)
	case unit != "":
		return "a program of " + unit
	case s.uid != 0:
		return fmt.Sprintf("a program of user %d", s.uid)
	}
	return "a program of root"
}
