package iptables

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// watch runs Watch until the test ends, and returns what it tells.
func (b backend) watch(t *testing.T, s *Subscription) <-chan []Writer {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	told, ended := make(chan []Writer, 100), make(chan error, 1)
	go func() { ended <- s.Watch(ctx, func(w []Writer) { told <- w }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return told
}

// Other programs that change rules are named. What we write, by tools and without, is not told.
func TestKernelWatch(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		kerneltest.Need(t, kerneltest.Tool("nft"))
		s, err := b.Subscribe()
		if err != nil {
			t.Fatal(err)
		}
		if b.name == "legacy" {
			if s != nil || b.Hold() != nil || strings.Contains(kerneltest.Run(t, "nft", "list", "tables"), holder) {
				t.Error("there are no rules of ours in nftables, and it is watched or held")
			}
			return
		}
		told := b.watch(t, s)
		if err := b.Hold(); err != nil {
			t.Fatal(err)
		}
		b.sync(t, wanted(t, small))
		other := exec.Command("nft", "add", "table", "inet", "others")
		if out, err := other.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		want := fmt.Sprintf("[nft (pid %d)]", other.Process.Pid)
		if got := fmt.Sprint(<-told); got != want {
			t.Errorf("told of %s, want %s", got, want)
		}
	})
}

// Notifications that are lost are a change by an unknown process.
func TestKernelWatchOverflow(t *testing.T) {
	kerneltest.NewNamespace(t)
	kerneltest.UseBackend(t, "nft")
	tt, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tt.Close()
	s, err := tt.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := s.events.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1) })
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		kerneltest.Run(t, "nft", "add", "table", "inet", fmt.Sprint("others", i))
	}
	told := backend{tt, "nft"}.watch(t, s)
	if got := <-told; !slices.Contains(got, Writer{}) {
		t.Errorf("told of %v", got)
	}
}

// A flush of the ruleset leaves the table of Hold, which no other program can change. It is gone with its socket.
func TestKernelHold(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"))
	kerneltest.NewNamespace(t)
	kerneltest.UseBackend(t, "nft")
	tt, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := tt.Hold(); err != nil {
			t.Fatal(err)
		}
	}
	second, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := second.Hold(); !errors.Is(err, unix.EPERM) {
		t.Errorf("a second owner: %v", err)
	}
	kerneltest.Run(t, "nft", "flush", "ruleset")
	if out, err := exec.Command("nft", "delete", "table", "inet", holder).CombinedOutput(); err == nil {
		t.Errorf("another program removed the table: %s", out)
	}
	for _, line := range []string{
		"flags owner", "ct direction original",
		"hook prerouting priority dstnat + 10; policy accept;", "hook postrouting priority srcnat + 10; policy accept;",
	} {
		if out := kerneltest.Run(t, "nft", "list", "ruleset"); strings.Count(out, line) != 1 {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
	if found, err := tt.Firewall(kernel.DefaultNames); err != nil || len(found) > 0 {
		t.Errorf("firewall %v, %v", found, err)
	}
	if err := tt.Close(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); strings.Contains(kerneltest.Run(t, "nft", "list", "ruleset"), holder); {
		if time.Since(begin) > time.Minute { // the kernel removes it behind the close
			t.Fatal("the table is still there")
		}
	}
}

func TestWriters(t *testing.T) {
	tool, thread := commit{Writer{7, "iptables-restor"}, 7}, commit{Writer{9, "svcproxy"}, 1 << 31}
	other := commit{Writer{100, "nft"}, 100}
	elsewhere := commit{Writer{4711, "iptables-restor"}, 7} // our tool, seen from the first PID namespace
	ours := func(pid uint32) bool { return pid == 7 || pid == 9 }
	list := with(with(nil, []commit{tool, other, thread, other, elsewhere}), []commit{other, {}})
	if got := fmt.Sprint(othersOf(list, ours)); got != "[nft (pid 100) ]" {
		t.Error(got)
	}
	for i := range uint32(1000) {
		list = with(list, []commit{{port: i}})
	}
	if len(list) != mostCommits {
		t.Errorf("%d are kept", len(list))
	}
}

// endMessage is what Linux tells of nft add table on a little-endian machine.
var endMessage = []byte("\x2c\x00\x00\x00\x0f\x0a\x00\x00\x02\x00\x00\x00\x39\x30\x00\x00\x00\x00\x00\x02" +
	"\x08\x00\x01\x00\x00\x00\x00\x02\x08\x00\x02\x00\x00\x00\x30\x39\x08\x00\x03\x00nft\x00")

func FuzzDecodeCommits(f *testing.F) {
	want := []commit{{Writer{12345, "nft"}, 12345}}
	if got := decodeCommits(endMessage); !slices.Equal(got, want) {
		f.Errorf("%v, want %v", got, want)
	}
	f.Add(endMessage)
	f.Add(endMessage[:30])
	f.Fuzz(func(t *testing.T, p []byte) { decodeCommits(p) })
}
