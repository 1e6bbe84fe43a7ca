//go:build !noapiserver

package apiserver

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestPluginHasNoCapabilities: a plugin does not inherit the capabilities that systemd gives to svcproxy. It lives until
// it ends by itself, although the kernel kills it with the thread that started it.
func TestPluginHasNoCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		t.Fatal(err)
	}
	data[0].Inheritable |= 1 << unix.CAP_NET_RAW
	all := func(call uintptr, a, b, c uintptr) {
		t.Helper()
		_, _, errno := syscall.AllThreadsSyscall(call, a, b, c)
		if errno == syscall.ENOTSUP {
			t.Skip("a program with cgo, as the race detector needs it, cannot change the capabilities of all threads")
		}
		if errno != 0 {
			t.Fatal(errno)
		}
	}
	all(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0)
	all(syscall.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_NET_RAW)
	defer all(syscall.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0)

	const none = "CapAmb:\t0000000000000000"
	inherited, err := exec.Command("/bin/grep", "CapAmb", "/proc/self/status").Output()
	if err != nil || strings.TrimSpace(string(inherited)) == none {
		t.Fatalf("an ordinary program has %q, %v: the test shows nothing", inherited, err)
	}
	c := &clientcmdapi.ExecConfig{Command: "/bin/sh", Args: []string{"-c", "sleep 0.1; grep CapAmb /proc/self/status"}}
	for range 2 { // the first run may be on the main thread, which Go never ends
		if has, err := execute(t.Context(), c, "A=b"); err != nil || strings.TrimSpace(string(has)) != none {
			t.Errorf("the plugin has %q, %v", has, err)
		}
	}
}
