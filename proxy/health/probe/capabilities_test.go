package probe

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Programs of exec probes do not inherit the capabilities that systemd gives to svcproxy.
func TestExecHasNoCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const netRaw, raise, clearAll = 13, 2, 4
	header := struct {
		version uint32
		pid     int32
	}{version: 0x20080522}
	var data [2]struct{ effective, permitted, inheritable uint32 }
	all := func(call uintptr, args ...uintptr) {
		t.Helper()
		args = append(args, 0, 0, 0)
		_, _, errno := syscall.AllThreadsSyscall(call, args[0], args[1], args[2])
		if errno == syscall.ENOTSUP {
			t.Skip("a program with cgo, as the race detector needs it, cannot change the capabilities of all threads")
		}
		if errno != 0 {
			t.Fatal(errno)
		}
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0); errno != 0 {
		t.Fatal(errno)
	}
	data[0].inheritable |= 1 << netRaw
	all(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)))
	all(syscall.SYS_PRCTL, unix.PR_CAP_AMBIENT, raise, netRaw)
	defer all(syscall.SYS_PRCTL, unix.PR_CAP_AMBIENT, clearAll)

	const none = "CapAmb:\t0000000000000000"
	inherited, err := exec.Command("/bin/grep", "CapAmb", "/proc/self/status").Output()
	if err != nil || strings.TrimSpace(string(inherited)) == none {
		t.Fatalf("an ordinary program has %q, %v: the test shows nothing", inherited, err)
	}
	expect(t, "ok: "+strings.ReplaceAll(none, "\t", "?"), shell("grep CapAmb /proc/self/status"), closed(t))
}
