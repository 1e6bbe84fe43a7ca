package host

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

func TestMain(m *testing.M) {
	if at := os.Getenv("LISTEN_AT"); at != "" {
		listen(at)
		return
	}
	os.Exit(m.Run())
}

// listen is another program: it listens until its standard input ends.
func listen(at string) {
	if _, err := net.Listen("tcp", at); err != nil {
		fmt.Println(err)
	}
	if _, err := net.ListenPacket("udp4", at); err != nil {
		fmt.Println(err)
	}
	fmt.Println("listens")
	bufio.NewReader(os.Stdin).ReadString('\n')
}

// A kernel that lacks a protocol or its module has the sockets of the others.
func TestAbsentProtocols(t *testing.T) {
	for _, c := range []struct {
		proto      kernel.Proto
		err        error
		says, ends bool
	}{
		{kernel.TCP, nil, false, false}, {kernel.TCP, unix.EAFNOSUPPORT, false, false}, {kernel.TCP, unix.ENOENT, true, false},
		{kernel.UDP, unix.ENOENT, false, false}, {kernel.SCTP, unix.ENOENT, false, false}, {kernel.UDP, unix.EPERM, true, true},
	} {
		if say, ends := verdict(c.proto, c.err); (say != nil) != c.says || ends != c.ends {
			t.Errorf("%s, %v: %v, ends %t", c.proto, c.err, say, ends)
		}
	}
}

// Sockets of other programs are found with their names, those of this process are not, and sockets that are connected
// or closed count for nothing.
func TestListeners(t *testing.T) {
	kerneltest.NewNamespace(t)
	ours, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(program)
	other.Env = append(os.Environ(), "LISTEN_AT=127.0.0.1:2222")
	stdin, _ := other.StdinPipe()
	stdout, _ := other.StdoutPipe()
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "listens\n" {
		t.Fatal(line)
	}
	client, err := net.Dial("tcp", "127.0.0.1:2222")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var s Sockets
	all := func(uint16, kernel.Proto) bool { return true }
	var texts []string
	read := func() []string {
		t.Helper()
		list, err := s.Listeners(all)
		if err != nil {
			t.Fatal(err)
		}
		texts = texts[:0]
		for _, l := range list {
			texts = append(texts, fmt.Sprintf("%s:%d/%s %s", l.Addr, l.Port, l.Proto, l.Program))
		}
		return texts
	}
	name := fmt.Sprintf("%.15s (pid %d)", filepath.Base(program), other.Process.Pid)
	if got, want := read(), []string{"127.0.0.1:2222/tcp " + name, "127.0.0.1:2222/udp " + name}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if list, err := s.Listeners(func(port uint16, p kernel.Proto) bool { return port == 2222 && p == kernel.UDP }); err != nil || len(list) != 1 {
		t.Errorf("UDP alone: %v, %v", list, err)
	}
	stdin.Close()
	other.Wait()
	if got := read(); len(got) != 0 {
		t.Errorf("after it ended: %q", got)
	}
}

// The name is that of the program and not of systemd, else that of the control group; svcproxy's own sockets are told by
// both.
func TestPrograms(t *testing.T) {
	root := t.TempDir()
	defer func(p string, c []string) { procDir, cgroupDirs = p, c }(procDir, cgroupDirs)
	procDir, cgroupDirs = filepath.Join(root, "proc"), []string{filepath.Join(root, "none"), filepath.Join(root, "cgroup")}
	process := func(pid, comm string, inodes ...int) {
		fds := filepath.Join(procDir, pid, "fd")
		os.MkdirAll(fds, 0o755)
		os.WriteFile(filepath.Join(procDir, pid, "comm"), []byte(comm+"\n"), 0o644)
		for i, n := range inodes {
			os.Symlink(fmt.Sprintf("socket:[%d]", n), filepath.Join(fds, fmt.Sprint(i)))
		}
	}
	process("1", "systemd", 10, 11)
	process("812", "sshd", 10)
	process("900", "svcproxy", 13)
	group := func(unit string) uint64 {
		dir := filepath.Join(root, "cgroup", "system.slice", unit)
		os.MkdirAll(dir, 0o755)
		os.WriteFile(filepath.Join(root, "cgroup", "cgroup.controllers"), nil, 0o644)
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		return inodeOf(info)
	}
	sockets := []socket{{inode: 10}, {inode: 11}, {inode: 13}, {inode: 14, cgroup: group("ssh.service")}, {inode: 15, cgroup: group("svcproxy.service")},
		{inode: 16, uid: 33}, {inode: 17}}
	p := ownersOf(sockets)
	var got []string
	for i := range sockets {
		if p.isOurs(&sockets[i]) {
			got = append(got, "ours")
			continue
		}
		got = append(got, p.name(&sockets[i]))
	}
	want := []string{"sshd (pid 812)", "systemd (pid 1)", "ours", "a program of ssh.service", "ours", "a program of user 33", "a program of root"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(make([]byte, messageSize))
	f.Add(append(append([]byte{10, 10}, make([]byte, messageSize-2)...), 5, 0, attrV6Only, 0, 1, 0, 0, 0))
	f.Add([]byte(strings.Repeat("\x02", messageSize+7)))
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := decode(p, kernel.TCP)
		if err == nil && (!s.Addr.IsValid() || s.Proto != kernel.TCP) {
			t.Errorf("%+v", s)
		}
	})
}
