package probe

import (
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
)

// fullListener returns a TCP port that nobody accepts from and whose queue is full.
func fullListener(t testing.TB) netip.AddrPort {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil { // a queue of one
		t.Fatal(err)
	}
	own, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	target := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(own.(*syscall.SockaddrInet4).Port))
	first, err := net.Dial("tcp4", target.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { first.Close() })
	return target
}

// noDescriptors lets the process open no further file until the test ends.
func noDescriptors(t *testing.T) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) })
}
