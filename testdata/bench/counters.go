package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// counts are events of the whole machine, by the kernel's own counters.
type counts struct {
	Syscalls int64 // but for those a Go program makes to wait and to collect garbage
	Messages int64 // netlink messages that the kernel took in
	Execs    int64
}

// counters are perf events on trace points and kprobes, on every processor. Open
// they cost some hundred instructions an event, so what is counted is not timed.
type counters struct {
	syscalls, messages, execs []int
	seen                      counts // when they were stopped last
}

const tracing = "/sys/kernel/tracing"

// takers are the functions that take in one netlink message each.
var takers = []string{"genl_rcv_msg", "nfnetlink_rcv_msg", "rtnetlink_rcv_msg"}

// idle are the system calls by which a Go program waits, schedules and manages its
// memory, and those of this program's own clock.
var idle = []int{
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_EPOLL_PWAIT, unix.SYS_SCHED_YIELD, unix.SYS_MADVISE, unix.SYS_MMAP,
	unix.SYS_MUNMAP, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_TGKILL, unix.SYS_GETPID, unix.SYS_SIGALTSTACK, unix.SYS_CLONE, unix.SYS_GETTID,
	unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE,
}

// prepareCounters makes the events that openCounters opens.
func prepareCounters() error {
	if err := unix.Mount("tracefs", tracing, "tracefs", 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("mount tracefs: %w", err)
	}
	// nfnetlink's function is there once the module is.
	if fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER); err == nil {
		unix.Close(fd)
	}
	var probes strings.Builder
	for _, f := range takers {
		fmt.Fprintf(&probes, "p:bench/%s %s\n", f, f)
	}
	if err := os.WriteFile(tracing+"/kprobe_events", []byte(probes.String()), 0); err != nil {
		return fmt.Errorf("probes of netlink messages: %w", err)
	}
	return nil
}

func openCounters() (*counters, error) {
	var filter []string
	for _, n := range idle {
		filter = append(filter, fmt.Sprintf("id != %d", n))
	}
	c := new(counters)
	var err error
	if c.syscalls, err = openEvent("raw_syscalls/sys_enter", strings.Join(filter, " && ")); err != nil {
		return nil, err
	}
	if c.execs, err = openEvent("sched/sched_process_exec", ""); err != nil {
		return nil, err
	}
	for _, f := range takers {
		fds, err := openEvent("bench/"+f, "")
		if err != nil {
			return nil, err
		}
		c.messages = append(c.messages, fds...)
	}
	return c, nil
}

// openEvent opens a disabled counter of a trace event on each processor.
func openEvent(event, filter string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(tracing, "events", event, "id"))
	if err != nil {
		return nil, fmt.Errorf("trace event %s: %w", event, err)
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("trace event %s: %w", event, err)
	}
	var fds []int
	for cpu := range runtime.NumCPU() {
		attr := unix.PerfEventAttr{
			Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Bits: unix.PerfBitDisabled,
			Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		}
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("counter of %s: %w", event, err)
		}
		if filter != "" {
			p, err := unix.BytePtrFromString(filter)
			if err != nil {
				return nil, err
			}
			if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_SET_FILTER, uintptr(unsafe.Pointer(p))); errno != 0 {
				return nil, fmt.Errorf("filter of %s: %w", event, errno)
			}
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// start has them count.
func (c *counters) start() { c.enable(unix.PERF_EVENT_IOC_ENABLE) }

// stop ends that and gives what was counted since start.
func (c *counters) stop() counts {
	c.enable(unix.PERF_EVENT_IOC_DISABLE)
	was := c.seen
	c.seen = counts{Syscalls: sum(c.syscalls), Messages: sum(c.messages), Execs: sum(c.execs)}
	// The first of the calls that stop them was still counted.
	return counts{c.seen.Syscalls - was.Syscalls - 1, c.seen.Messages - was.Messages, c.seen.Execs - was.Execs}
}

func (c *counters) close() {
	for _, fds := range [][]int{c.syscalls, c.messages, c.execs} {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
}

// enable turns them on and off, system calls first on the way off and last on the
// way on.
func (c *counters) enable(request uint) {
	all := [][]int{c.syscalls, c.messages, c.execs}
	if request == unix.PERF_EVENT_IOC_ENABLE {
		slices.Reverse(all)
	}
	for _, fds := range all {
		for _, fd := range fds {
			unix.IoctlSetInt(fd, request, 0)
		}
	}
}

func sum(fds []int) (n int64) {
	for _, fd := range fds {
		var b [8]byte
		if _, err := unix.Read(fd, b[:]); err == nil {
			n += int64(binary.NativeEndian.Uint64(b[:]))
		}
	}
	return n
}
