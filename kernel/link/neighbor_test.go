package link

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

func answers(device, a string) kernel.Neighbor {
	return kernel.Neighbor{Addr: netip.MustParseAddr(a), Link: device}
}

func readNeighbors(t testing.TB, l *Links) (ours, foreign string) {
	t.Helper()
	o, f, err := l.ReadNeighbors()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(o), fmt.Sprint(f)
}

// withLinks makes a pair of links, eth0 and eth1.
func withLinks(t testing.TB) *Links {
	t.Helper()
	l := open(t, nil)
	for _, line := range []string{"link add eth0 type veth peer name eth1", "link set eth0 up", "link set eth1 up"} {
		kerneltest.Run(t, "ip", strings.Fields(line)...)
	}
	return l
}

func TestNeighbors(t *testing.T) {
	l := withLinks(t)
	kerneltest.Run(t, "ip", "-6", "neigh", "add", "proxy", "fd00:96::99", "dev", "eth0")
	kerneltest.Run(t, "ip", "-6", "neigh", "add", "proxy", "fd00:96::98", "dev", "eth0", "protocol", "ra")
	kerneltest.Run(t, "ip", "neigh", "add", "proxy", "10.96.0.99", "dev", "eth0")
	const others = "[neigh add proxy fd00:96::98 dev eth0 neigh add proxy fd00:96::99 dev eth0]"
	if ours, foreign := readNeighbors(t, l); ours != "[]" || foreign != others {
		t.Errorf("read %s and %s", ours, foreign)
	}
	before := l.Stats()
	apply(t, l, add(answers("eth1", "fd00:96::10"), answers("eth0", "fd00:96::20"), answers("eth0", "fd00:96::10")))
	if s := l.Stats(); s.Messages-before.Messages != 3 || s.Sends-before.Sends != 5 {
		t.Errorf("three neighbours on two links took %d messages, %d sends", s.Messages-before.Messages, s.Sends-before.Sends)
	}
	const want = "[neigh add proxy fd00:96::10 dev eth0 neigh add proxy fd00:96::20 dev eth0 neigh add proxy fd00:96::10 dev eth1]"
	if ours, foreign := readNeighbors(t, l); ours != want || foreign != others {
		t.Errorf("read %s and %s", ours, foreign)
	}
	if out := kerneltest.Run(t, "ip", "-6", "neigh", "show", "proxy"); !strings.Contains(out, "fd00:96::20 dev eth0") {
		t.Errorf("ip shows\n%s", out)
	}

	ops := append(add(answers("eth0", "fd00:96::20"), answers("eth0", "fd00:96::99"), answers("eth9", "fd00:96::20"), answers("eth0", "10.96.0.98")),
		remove(answers("eth0", "fd00:96::30"), answers("eth0", "fd00:96::99"), answers("eth0", "fd00:96::98"), answers("eth0", "fd00:96::20"))...)
	ops = append(ops, add(answers("eth0", "fd00:96::20"))...)
	errs := l.Apply(ops)
	for i, want := range []error{unix.EEXIST, unix.EEXIST, unix.ENODEV, errs[3], unix.ENOENT, unix.EEXIST, unix.EEXIST, nil, nil} {
		if !errors.Is(errs[i], want) {
			t.Errorf("%s: %v, want %v", ops[i], errs[i], want)
		}
	}
	var f *ForeignNeighborError
	if !errors.As(errs[1], &f) || errs[3] == nil {
		t.Errorf("errors %v and %v", errs[1], errs[3])
	}
	apply(t, l, remove(answers("eth0", "fd00:96::10"), answers("eth0", "fd00:96::20"), answers("eth1", "fd00:96::10")))
	if ours, foreign := readNeighbors(t, l); ours != "[]" || foreign != others {
		t.Errorf("left are %s and %s", ours, foreign)
	}
	if out := kerneltest.Run(t, "ip", "neigh", "show", "proxy"); !strings.Contains(out, "10.96.0.99") {
		t.Errorf("the IPv4 proxy is gone: %s", out)
	}
}

// Reading an empty list is one dump.
func TestReadNeighborsCost(t *testing.T) {
	l := withLinks(t)
	apply(t, l, add(answers("eth0", "fd00:96::10"), answers("eth1", "fd00:96::10")))
	read(t, l)
	before := l.Stats()
	readNeighbors(t, l)
	if s := l.Stats(); s.Queries-before.Queries != 1 {
		t.Errorf("%d queries", s.Queries-before.Queries)
	}
}

// The node answers a solicitation for a VIP that is bound to our device.
func TestNeighborIsAnswered(t *testing.T) {
	kerneltest.Need(t, kerneltest.Namespaces, kerneltest.Tool("ip"))
	l := withDevice(t, nil)
	apply(t, l, add(vip("2001:db8::20")))
	client := exec.Command("sleep", "60")
	client.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	defer client.Wait()
	defer client.Process.Kill()
	pid := fmt.Sprint(client.Process.Pid)
	for _, line := range []string{
		"ip link add eth0 type veth peer name eth1 netns " + pid,
		"ip addr add 2001:db8::1/64 dev eth0 nodad",
		"ip link set eth0 up",
		"nsenter -t " + pid + " -n ip addr add 2001:db8::2/64 dev eth1 nodad",
		"nsenter -t " + pid + " -n ip link set eth1 up",
		"sysctl -qw net.ipv6.conf.all.forwarding=1",
		"sysctl -qw net.ipv6.conf.eth0.proxy_ndp=1",
		"sysctl -qw net.ipv6.neigh.eth0.proxy_delay=0",
	} {
		f := strings.Fields(line)
		kerneltest.Run(t, f[0], f[1:]...)
	}
	ping := []string{"-t", pid, "-n", "ping", "-6", "-c", "1", "-W", "1", "2001:db8::20"}
	if exec.Command("nsenter", ping...).Run() == nil {
		t.Fatal("the VIP answers without a proxy neighbour")
	}
	apply(t, l, add(answers("eth0", "2001:db8::20")))
	// The client may have marked the address as unreachable just before, so it retries.
	kerneltest.Run(t, "nsenter", "-t", pid, "-n", "ping", "-6", "-c", "1", "-w", "20", "2001:db8::20")
}
