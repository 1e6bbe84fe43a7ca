package machine

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is a running program of this network namespace, or one that sets the clock.
type Process struct {
	PID  int
	Name string // as the kernel has it: 15 bytes at most
}

// notable are the programs that Facts.Processes lists: other balancers, and those that set the
// clock.
var notable = append([]string{"kube-proxy", "keepalived", "ldirectord", "kube-router"}, timeDaemons...)

var timeDaemons = []string{"chronyd", "systemd-timesyn", "ntpd", "openntpd", "ptp4l"}

func (r *reader) processes() (list []Process) {
	entries, err := os.ReadDir(r.path("/proc"))
	if err != nil {
		r.lacks = append(r.lacks, Lack{"processes", err.Error()})
		return nil
	}
	own, _ := os.Readlink(r.path("/proc/self/ns/net"))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		name := strings.TrimSpace(r.text("/proc/" + e.Name() + "/comm"))
		if !slices.Contains(notable, name) {
			continue
		}
		if !slices.Contains(timeDaemons, name) && !r.here(pid, name, own) {
			continue
		}
		list = append(list, Process{pid, name})
	}
	if _, err := os.Stat(r.path("/proc/1/comm")); err != nil {
		r.lacks = append(r.lacks, Lack{"processes of other users", "/proc hides them (hidepid)"})
	}
	return list
}

// here reports whether a process is in this process's network namespace. Only root may ask that
// about another user's process.
func (r *reader) here(pid int, name, own string) bool {
	ns, err := os.Readlink(r.path("/proc/" + strconv.Itoa(pid) + "/ns/net"))
	if errors.Is(err, fs.ErrPermission) {
		r.lacks = append(r.lacks, Lack{"whether " + name + " (process " + strconv.Itoa(pid) +
			") is in this network namespace", "permission denied: run as root"})
		return false
	}
	return err != nil || ns == own
}

// UserOf returns the user that a process runs as; false if it is not known.
func UserOf(pid int) (uid int, known bool) {
	r := reader{}
	for _, line := range r.lines("/proc/" + strconv.Itoa(pid) + "/status") {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "Uid:" {
			uid, err := strconv.Atoi(f[2]) // the effective one
			return uid, err == nil
		}
	}
	return 0, false
}

// Clock is about the time.
type Clock struct {
	// Synced is what the kernel says about the clock, and Daemon the program that should set
	// it, "" if none runs.
	Synced bool
	Daemon string
}

func (r *reader) clock(running []Process) Clock {
	c := Clock{Synced: true}
	for _, p := range running {
		if slices.Contains(timeDaemons, p.Name) {
			c.Daemon = p.Name
		}
	}
	if r.o.Root == "" {
		var t unix.Timex
		if _, err := unix.Adjtimex(&t); err == nil {
			c.Synced = synced(&t)
		}
	}
	return c
}

// maxError is how large the kernel lets the error of the clock grow, in microseconds. It has that
// value while no program sets the clock.
const maxError = 16_000_000

// synced looks at the error, as systemd does. Without rtcsync, chronyd leaves STA_UNSYNC set on a
// clock that it keeps right, so that the kernel does not write the hardware clock.
func synced(t *unix.Timex) bool { return t.Maxerror < maxError }
