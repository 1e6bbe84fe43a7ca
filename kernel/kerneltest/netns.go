// Package kerneltest helps tests that use the real kernel. It gives them network
// namespaces, skips what this machine's kernel cannot do, and has the contract that
// kernel/fake, kernel/host and kernel/relay fulfil.
//
// Tests must not pass by skipping where nothing is missing. With SVCPROXY_GUEST=1 in the
// environment, as in the test guest, a missing feature fails the test. With
// SVCPROXY_NOSKIP, as in make test-here, a missing program fails it: kernel features are
// tested in the guest, but programs can be installed.
package kerneltest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// NewNamespace moves the calling goroutine into a new network namespace, with lo up, for
// the rest of the test or benchmark. Sockets that it opens and programs that it starts
// are inside. Subtests run in goroutines of their own, so each calls NewNamespace
// itself. It skips the test without root, or if another test has the namespace that the
// process was given.
func NewNamespace(t testing.TB) {
	t.Helper()
	if given {
		takeNamespace(t)
		return
	}
	Need(t, Root)
	if err := enterNamespace(); err != nil {
		t.Fatal(err)
	}
	if err := linkUp("lo"); err != nil {
		t.Fatal(err)
	}
}

// enterNamespace never unlocks the thread. The runtime ends a thread whose goroutine
// ends while locked to it, so no other goroutine gets one in a foreign namespace.
func enterNamespace() error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("new network namespace: %w", err)
	}
	return nil
}

func linkUp(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

// Feature is something that a test needs and a machine may lack.
type Feature struct {
	Name     string
	probe    func() error // nil when it is there
	program  bool         // make guest installs it
	optional bool         // the guest may lack it
}

// The features that kernel tests need.
var (
	Root = Feature{Name: "root", probe: func() error {
		if os.Geteuid() != 0 {
			return fmt.Errorf("running as uid %d", os.Geteuid())
		}
		return nil
	}}
	IPVS = Feature{Name: "ip_vs", probe: sync.OnceValue(func() error {
		_, err := nl.Family("IPVS")
		return err
	})}
	// Flowtables means that nf_tables has flowtables, and connection tracking its list in /proc, which tells of them.
	Flowtables = Feature{Name: "nf_flow_table", probe: sync.OnceValue(func() error { return inNamespace(tryFlowtable) })}
	Dummy      = Feature{Name: "dummy", probe: sync.OnceValue(func() error { return inNamespace(tryDummy) })}
	// Namespaces means that a test may have several, for tests with two hosts.
	Namespaces = Feature{Name: "a namespace beside the test's own", probe: func() error {
		if given {
			return fmt.Errorf("%s is set", givenNamespace)
		}
		return nil
	}, optional: true}
	// Users means that a test can run processes and own files as other users.
	Users = Feature{Name: "other users", probe: Root.probe, optional: true}
)

func tryFlowtable() error {
	rules := "add table ip t; add flowtable ip t f { hook ingress priority 0; devices = { lo }; };" +
		"add chain ip t c; add rule ip t c flow add @f"
	if out, err := exec.Command("nft", rules).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	_, err := os.Stat("/proc/thread-self/net/nf_conntrack")
	return err
}

// Tool is a program that a test runs, such as ipset, ip and ipvsadm, which read and
// write the kernel independently.
func Tool(name string) Feature {
	return Feature{Name: name, probe: func() error { _, err := exec.LookPath(name); return err }, program: true}
}

// Missing returns why the feature is missing, nil if it is there.
func (f Feature) Missing() error { return f.probe() }

// Need skips the test if a feature is missing, and fails it where none may be missing.
func Need(t testing.TB, features ...Feature) {
	t.Helper()
	for _, f := range features {
		err := f.probe()
		switch {
		case err == nil:
		case os.Getenv("SVCPROXY_GUEST") == "1" && !f.optional:
			t.Fatalf("the guest lacks %s: %v", f.Name, err)
		case f.program && os.Getenv("SVCPROXY_NOSKIP") != "":
			t.Fatalf("needs %s, and SVCPROXY_NOSKIP is set: %v (make guest)", f.Name, err)
		default:
			t.Skipf("needs %s: %v", f.Name, err)
		}
	}
}

// Run runs a tool in the calling goroutine's namespace and returns its output. An exit
// code other than 0 fails the test.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	Need(t, Tool(name))
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// inNamespace runs f in a new namespace that ends with it, or in the given one.
func inNamespace(f func() error) error {
	if given {
		return f()
	}
	done := make(chan error)
	go func() {
		err := enterNamespace()
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// tryDummy creates a dummy device and removes it.
func tryDummy() error {
	c, err := new(nl.Dialer).Dial(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer c.Close()
	var b nl.Batch
	b.Begin(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	b.Raw(make([]byte, unix.SizeofIfInfomsg))
	b.Text(unix.IFLA_IFNAME, "probe0")
	info := b.Nest(unix.IFLA_LINKINFO)
	b.Text(unix.IFLA_INFO_KIND, "dummy")
	b.EndNest(info)
	b.End()
	b.Begin(unix.RTM_DELLINK, 0)
	b.Raw(make([]byte, unix.SizeofIfInfomsg))
	b.Text(unix.IFLA_IFNAME, "probe0")
	b.End()
	return c.Send(&b)
}
