package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Namespace is one host of the lab: a network namespace without a name. The
// kernel removes it and its contents with the last file, socket or process that
// holds it. So a lab that is killed leaves nothing behind.
type Namespace struct {
	Name    string
	file    *os.File
	dialled atomic.Uint32 // connections
}

// NewNamespace makes an empty namespace with lo up.
func NewNamespace(name string) (*Namespace, error) {
	ns := &Namespace{Name: name}
	err := onThread(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, func() error {
		var err error
		ns.file, err = os.Open(threadNamespace)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("new network namespace for %s: %w", name, err)
	}
	if err := ns.Do(trustLinkLocal); err != nil {
		return nil, err
	}
	return ns, ns.IP("link set lo up")
}

// trustLinkLocal turns off duplicate address detection for new links. Otherwise the kernel probes
// link-local addresses for a second or two, and resolves no neighbour until then.
func trustLinkLocal() error {
	return os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0o644)
}

const threadNamespace = "/proc/thread-self/ns/net"

// onThread runs f on a thread that enter has moved to another namespace, and
// moves it back. A thread that cannot get back stays locked to its goroutine, so
// that it ends with it and is not reused.
func onThread(enter, f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open(threadNamespace)
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer home.Close()
	if err := enter(); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() {
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}

// Do runs f inside the namespace: sockets it makes and programs it starts belong
// there, goroutines it starts do not.
func (ns *Namespace) Do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter namespace of %s: %w", ns.Name, err)
		}
		return nil
	}, f)
}

// Close lets go of the namespace.
func (ns *Namespace) Close() error { return ns.file.Close() }

// Start starts a program inside. It is killed when this process dies, because
// no other process would stop it.
func (ns *Namespace) Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return ns.Do(cmd.Start)
}

// Run executes a program inside and returns what it printed on standard output.
func (ns *Namespace) Run(name string, args ...string) (string, error) {
	return ns.Feed("", name, args...)
}

// Feed is Run with something on standard input.
func (ns *Namespace) Feed(stdin, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), toolLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := ns.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		err = fmt.Errorf("%s: %s %s: %w: %s", ns.Name, name, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), err
}

// IP configures links, addresses and routes: lines as iproute2's ip takes them.
func (ns *Namespace) IP(lines ...string) error {
	_, err := ns.Feed(strings.Join(lines, "\n")+"\n", "ip", "-batch", "-")
	return err
}

// Adopt moves a link of the calling program's own namespace into this one.
func (ns *Namespace) Adopt(link string) error {
	if out, err := exec.Command("ip", "link", "set", link, "netns", ns.path()).CombinedOutput(); err != nil {
		return fmt.Errorf("move link %s to %s: %w: %s", link, ns.Name, err, bytes.TrimSpace(out))
	}
	return nil
}

// path names the namespace for other programs, as long as we run.
func (ns *Namespace) path() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.file.Fd())
}
