package host

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// Each network namespace has one lock, and the error names its holder.
func TestOneLock(t *testing.T) {
	kerneltest.NewNamespace(t)
	lock, err := AcquireLock()
	if err != nil {
		t.Fatal(err)
	}
	var running *RunningError
	if _, err := AcquireLock(); !errors.As(err, &running) || running.PID != os.Getpid() {
		t.Errorf("a second one: %v", err)
	}
	t.Run("another namespace", func(t *testing.T) {
		kerneltest.NewNamespace(t)
		other, err := AcquireLock()
		if err != nil {
			t.Fatal(err)
		}
		other.Release()
	})
	lock.Release()
	if lock, err = AcquireLock(); err != nil {
		t.Errorf("after it was given back: %v", err)
	} else {
		lock.Release()
	}
}

// Of processes that start at once exactly one has the lock.
func TestLockAtOnce(t *testing.T) {
	kerneltest.Need(t, kerneltest.Namespaces)
	kerneltest.NewNamespace(t)
	ns, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	for range 20 {
		var mu sync.Mutex
		var locks []*Lock
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				lock, err := lockIn(ns)
				var running *RunningError
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					locks = append(locks, lock)
				} else if !errors.As(err, &running) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(locks) > 1 {
			t.Fatalf("%d have the lock", len(locks))
		}
		for _, l := range locks {
			l.Release()
		}
	}
}

// Neither sockets of such names, made by a user without rights, nor dead processes keep
// svcproxy from starting.
func TestLockIsNotSquatted(t *testing.T) {
	kerneltest.Need(t, kerneltest.Users)
	for _, squatter := range []struct {
		uid  uint32
		caps []uintptr
		want bool // whether it may be svcproxy
	}{{65534, nil, false}, {65534, []uintptr{12}, true}, {0, nil, true}} {
		t.Run(fmt.Sprint(squatter.uid, squatter.caps), func(t *testing.T) {
			kerneltest.NewNamespace(t)
			self := filepath.Join(t.TempDir(), "holder") // other users may not enter the test's own folder
			data, err := os.ReadFile("/proc/self/exe")
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.WriteFile(self, data, 0o755), openFolders(self)); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self, "-test.run=^TestHoldLock$")
			cmd.Env = append(os.Environ(), "HOLD_LOCK=1")
			cmd.Stderr = os.Stderr
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Credential: &syscall.Credential{Uid: squatter.uid, Gid: squatter.uid}, AmbientCaps: squatter.caps, Pdeathsig: syscall.SIGKILL,
			}
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := out.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			lock, err := AcquireLock()
			var running *RunningError
			switch {
			case err == nil:
				lock.Release()
			case !errors.As(err, &running) || running.PID != cmd.Process.Pid:
				t.Error(err)
			}
			if (err != nil) != squatter.want {
				t.Errorf("with a socket of user %d, capabilities %v: %v", squatter.uid, squatter.caps, err)
			}
			in.Close()
			cmd.Wait()
		})
	}
}

// openFolders lets all users reach a test's file.
func openFolders(path string) error {
	for dir := filepath.Dir(path); strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// TestHoldLock is the other process of TestLockIsNotSquatted.
func TestHoldLock(t *testing.T) {
	if os.Getenv("HOLD_LOCK") == "" {
		return // this is not the other process
	}
	l, err := net.Listen("unix", lockPrefix+"0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fmt.Println()
	os.Stdin.Read(make([]byte, 1))
}

func TestParseSockets(t *testing.T) {
	const text = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 16227 @svcproxy/lock/0011
0000000000000000: 00000003 00000000 00000000 0001 03 16228 @svcproxy/lock/0022
0000000000000000: 00000002 00000000 00010000 0001 01 16229 /run/@svcproxy/lock/0033
0000000000000000: 00000002 00000000 00010000 0001 01 16230 @svcproxy/lock/xyz
0000000000000000: 00000002 00000000 00010000 0001 01 16231 @svcproxy/lock/00 44
0000000000000000: 00000002 00000000 00000000 0002 01 16232
`
	if names, err := parseSockets(strings.NewReader(text)); !slices.Equal(names, []string{"@svcproxy/lock/0011"}) || err != nil {
		t.Error(names, err)
	}
}

func TestAdministers(t *testing.T) {
	const status = "Name:\tx\nUid:\t1\t998\t998\t998\nCapPrm:\t0000000000003000\nCapEff:\t0000000000003000\n"
	if !administers(status, 998) || administers(status, 1) || administers(strings.Replace(status, "Eff:\t0000000000003000", "Eff:\t0000000000002000", 1), 998) {
		t.Error("who may be svcproxy")
	}
}

// lockIn takes the lock of another network namespace, on a thread that ends with it.
func lockIn(ns *os.File) (lock *Lock, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
			lock, err = AcquireLock()
		}
	}()
	<-done
	return lock, err
}
