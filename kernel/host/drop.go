package host

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/iptables"
)

// kept are the capabilities that serving and cleanup need.
var kept = [...]uint{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW}

// OpenTables opens iptables for a process that will call BecomeUser. So it runs the same
// tools afterwards, whatever that user's PATH is.
func OpenTables(ctx context.Context) (*Tables, error) {
	return iptables.Open(ctx, iptables.Options{Find: iptables.Found()})
}

// BecomeUser makes the process continue as another user with only CAP_NET_ADMIN and
// CAP_NET_RAW, which programs that it starts inherit. There is no way back. It needs
// root, and a build without cgo, so that all threads change together.
func BecomeUser(uid, gid int) error {
	if err := becomeUser(uid, gid); err != nil {
		return fmt.Errorf("becoming user %d: %w", uid, err)
	}
	return nil
}

func becomeUser(uid, gid int) error {
	// Otherwise the change of user would remove all capabilities.
	if err := onAllThreads(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0); err != nil {
		return err
	}
	// Programs that are started later get no more, for instance from a set-user-ID bit.
	if err := onAllThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return err
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(gid, gid, gid)); err != nil {
		return err
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return err
	}
	if err := keepCapabilities(); err != nil {
		return err
	}
	for _, c := range kept {
		if err := onAllThreads(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(c)); err != nil {
			return err
		}
	}
	return nil
}

// keepCapabilities drops all capabilities but kept.
func keepCapabilities() error {
	var set uint32
	for _, c := range kept {
		set |= 1 << c
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: set, Permitted: set, Inheritable: set}}
	return onAllThreads(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
}

//go:uintptrescapes
func onAllThreads(trap, a1, a2, a3 uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(trap, a1, a2, a3); errno != 0 {
		return errno
	}
	return nil
}
