package iptables

import (
	"fmt"
	"os"
	"sync"
)

// started are the last tools that this process started.
var started recent

// recent are some PIDs.
type recent struct {
	mu   sync.Mutex
	pids [64]int
	next int
}

func (r *recent) add(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pids[r.next%len(r.pids)] = pid
	r.next++
}

// has reports whether a PID is of one of them, or of a thread of this process, as the kernel names who writes.
func (r *recent) has(pid uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pids {
		if p != 0 && uint32(p) == pid {
			return true
		}
	}
	_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", pid))
	return err == nil
}
