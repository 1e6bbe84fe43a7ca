package daemon

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/relay"
	"github.com/svcproxy/svcproxy/proxy"
)

// fdStore is systemd behind NOTIFY_SOCKET, as far as it stores files.
type fdStore struct {
	conn  *net.UnixConn
	files map[string]*os.File
}

func newFDStore(t *testing.T) *fdStore {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &fdStore{conn: c, files: map[string]*os.File{}}
}

func (s *fdStore) store() fileStore { return fileStore(s.conn.LocalAddr().String()) }

// receive reads the messages that were sent.
func (s *fdStore) receive(t *testing.T) {
	t.Helper()
	text, rights := make([]byte, 4096), make([]byte, 256)
	for {
		s.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		n, m, _, _, err := s.conn.ReadMsgUnix(text, rights)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(string(text[:n]), "FDNAME=")
		if strings.HasPrefix(string(text[:n]), "FDSTOREREMOVE=1\n") {
			s.files[name].Close()
			delete(s.files, name)
			continue
		}
		all, err := syscall.ParseSocketControlMessage(rights[:m])
		if err != nil || len(all) != 1 {
			t.Fatalf("%d messages: %v", len(all), err)
		}
		fds, err := syscall.ParseUnixRights(&all[0])
		if err != nil || len(fds) != 1 {
			t.Fatalf("%d files: %v", len(fds), err)
		}
		s.files[name] = os.NewFile(uintptr(fds[0]), name)
	}
}

// backend answers each connection with a line.
func backend(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "hello")
			c.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func openListeners(t *testing.T, s *fdStore, inherited ...*os.File) *listeners {
	t.Helper()
	r, err := relay.New(relay.Options{Inherited: inherited})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return newListeners(r, s.store(), slog.New(slog.NewTextHandler(t.Output(), nil)))
}

// A client that connects while no svcproxy runs is served by the next one: systemd has kept the listener. A service that
// the next one no longer has is refused again, and systemd forgets its listener.
func TestListenersOutliveTheProcess(t *testing.T) {
	s := newFDStore(t)
	kept, dropped := kernel.VirtualAt(freePort(t), kernel.TCP), kernel.VirtualAt(freePort(t), kernel.TCP)
	to := backend(t)
	add := func(l *listeners, keys ...kernel.VirtualKey) {
		t.Helper()
		var ops []kernel.Op
		for _, k := range keys {
			ops = append(ops,
				kernel.Op{Verb: kernel.Add, Object: kernel.Virtual{Key: k, Scheduler: "rr", Netmask: 32}},
				kernel.Op{Verb: kernel.Add, Object: kernel.Real{Key: kernel.RealKey{Virtual: k, Addr: to}, Weight: 1}})
		}
		if errs := l.relay.Apply(ops); errs != nil {
			t.Fatal(errs)
		}
		l.synced(&proxy.Snapshot{})
		s.receive(t)
	}
	first := openListeners(t, s)
	add(first, kept, dropped)
	if len(s.files) != 2 {
		t.Fatalf("systemd keeps %v", s.files)
	}
	first.end()
	waiting, err := net.Dial("tcp4", kept.AddrPort().String())
	if err != nil {
		t.Fatalf("between two processes: %v", err)
	}
	defer waiting.Close()

	var files []*os.File
	for _, f := range s.files { // a process gets duplicates
		fd, err := syscall.Dup(int(f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, os.NewFile(uintptr(fd), f.Name()))
	}
	second := openListeners(t, s, files...)
	add(second, kept)
	if text, err := io.ReadAll(waiting); err != nil || string(text) != "hello" {
		t.Errorf("the client that waited got %q, %v", text, err)
	}
	if len(s.files) != 1 || s.files[relay.FileName(kept)] == nil {
		t.Errorf("systemd keeps %v", s.files)
	}
	if c, err := net.Dial("tcp4", dropped.AddrPort().String()); err == nil {
		c.Close()
		t.Error("a service that is gone takes connections")
	}
	second.end()
}

// A process in another mode closes what it inherits.
func TestDropInherited(t *testing.T) {
	s := newFDStore(t)
	at := freePort(t)
	l, err := net.Listen("tcp4", at.String())
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	name := relay.FileName(kernel.VirtualAt(at, kernel.TCP))
	fd, err := syscall.Dup(int(f.Fd()))
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	s.files[name] = os.NewFile(uintptr(fd), name)
	dup, err := syscall.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	dropInherited([]*os.File{os.NewFile(uintptr(dup), name)}, s.store(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	s.receive(t)
	if len(s.files) != 0 {
		t.Errorf("systemd keeps %v", s.files)
	}
	if c, err := net.Dial("tcp4", at.String()); err == nil {
		c.Close()
		t.Error("nobody serves, and the kernel takes connections")
	}
}
