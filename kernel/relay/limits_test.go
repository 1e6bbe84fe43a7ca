package relay

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// At the limit of connections new ones wait until others end.
func TestConnectionLimit(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	serve(t, r, v, backend(t, kernel.IPv4, echo))
	taken := r.files.free.Load() - 4 // for two connections
	r.files.take(taken)
	defer r.files.give(taken)
	a, b := dial(t, v.Key.AddrPort()), dial(t, v.Key.AddrPort())
	say(t, a, "hello")
	say(t, b, "hello")
	c, d := dial(t, v.Key.AddrPort()), dial(t, v.Key.AddrPort())
	eventually(t, "a shortage", func() bool { return r.Stats().Shortages[TooManyConnections] > 0 })
	if got := r.Stats(); got.Streams != 2 || got.Free != 0 {
		t.Errorf("%+v", got)
	}
	a.Close()
	say(t, c, "hello") // waits
	b.Close()
	say(t, d, "hello")
	// A client that waits when the virtual server is removed is reset.
	dial(t, v.Key.AddrPort())
	apply(t, r, remove(v))
}

// The limit follows from RLIMIT_NOFILE, with something left for the rest of the process.
func TestFileBudget(t *testing.T) {
	for _, limit := range []int{64, 1024, 65536, 1 << 20} {
		r := newRelay(t, Options{MaxFiles: limit})
		free := int(r.files.free.Load())
		if pipes := maxPipes(limit); free+2*pipes > limit*7/8 && limit-free-2*pipes < 256 || free < limit/2 {
			t.Errorf("limit %d: %d for connections, %d for pipes", limit, free, 2*pipes)
		}
	}
	r := newRelay(t, Options{})
	r.files.take(r.files.free.Load())
	defer r.files.give(int64(r.o.MaxFiles - 2*maxPipes(r.o.MaxFiles) - keptFiles(r.o.MaxFiles)))
	errs := r.Apply([]kernel.Op{add(virtual(t, kernel.TCP, kernel.IPv4, "rr"))})
	if len(errs) != 1 || errs[0] == nil || len(r.Read().Virtuals) != 0 {
		t.Errorf("%v", errs)
	}
}

// If file descriptors run out in spite of the limit, as when another part of the process takes them,
// accepting pauses and goes on later.
func TestEMFILE(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	serve(t, r, v, backend(t, kernel.IPv4, echo))
	say(t, dial(t, v.Key.AddrPort()), "warm") // the pipes and the poller exist now
	c := newSocket(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = uint64(highest(t) + 1)
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &low, nil); err != nil {
		t.Fatal(err)
	}
	fill, restore := []int{}, func() {}
	restore = func() {
		for _, fd := range fill {
			unix.Close(fd)
		}
		fill = nil
		unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil)
	}
	defer func() { restore() }()
	gaps := func() (some bool) { // below the limit
		for {
			fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return some
			}
			fill, some = append(fill, fd), true
		}
	}
	for gaps() { // one that opens late would be enough for a client, and not for its backend: the relay then resets it
		time.Sleep(200 * time.Millisecond)
	}
	unix.Close(fill[len(fill)-1]) // enough for a client, and not for its backend: the relay dials again
	fill = fill[:len(fill)-1]
	connected := make(chan error, 1)
	go func() {
		connected <- unix.Connect(c, &unix.SockaddrInet4{Port: int(v.Key.Port), Addr: v.Key.Addr.As4()})
	}()
	eventually(t, "a shortage", func() bool { return r.Stats().Shortages[NoFiles] > 0 })
	if err := <-connected; err != nil {
		t.Fatal(err) // the kernel's queue has it
	}
	restore()
	b := []byte("hello")
	if _, err := unix.Write(c, b); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Read(c, b); err != nil || n != 5 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func newSocket(t testing.TB) int {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}); err != nil {
		t.Fatal(err)
	}
	return fd
}

// highest is a file descriptor above which none is open.
func highest(t testing.TB) int {
	fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	top := fd
	for n := range 4096 {
		if _, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); err == nil {
			top = max(top, n)
		}
	}
	return top
}

func TestBackoff(t *testing.T) {
	var b backoff
	done := make(chan struct{})
	begin := time.Now()
	for range 3 { // 5 + 10 + 20 ms
		b.wait(done)
	}
	if took := time.Since(begin); took < 35*time.Millisecond {
		t.Errorf("%v", took)
	}
	b = backoff(time.Hour)
	close(done)
	if b.wait(done) || time.Duration(b) != time.Second {
		t.Errorf("%v", time.Duration(b))
	}
}

// A pipe that still has data is not used again.
func TestPipes(t *testing.T) {
	p := newPipes(2, func() {})
	a, b := p.get(), p.get()
	if a == nil || b == nil || p.get() != nil {
		t.Fatal("want two pipes")
	}
	p.put(a, true)
	p.put(b, false)
	if got := p.get(); got != a || p.left.Load() != 1 {
		t.Errorf("%v, %d left", got, p.left.Load())
	}
	p.disable()
	p.put(a, true)
	if p.get() != nil || p.left.Load() != 2 {
		t.Errorf("%d left", p.left.Load())
	}
	p.close()
}
