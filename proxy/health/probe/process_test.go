package probe

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/sources"
)

// roleVariable says what a child process of a test does instead of testing.
const roleVariable = "SVCPROXY_PROBE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role, argument, _ := strings.Cut(os.Getenv(roleVariable), " "); role {
	case "server":
		serveForever(argument)
	case "runner":
		runFor(netip.MustParseAddrPort(argument))
	case "tracer":
		trace(argument)
	case "prober":
		probeOnce(netip.MustParseAddrPort(argument))
	default:
		os.Exit(m.Run())
	}
}

// serveForever answers on all addresses of this machine, and prints its port.
func serveForever(answer string) {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // like most servers; its part of a connect on loopback is charged to the probes
	l, err := config.Listen(context.Background(), "tcp4", "0.0.0.0:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	for {
		c, err := l.Accept()
		if err != nil {
			continue
		}
		if answer == "" {
			c.Close()
			continue
		}
		go func() {
			c.Read(make([]byte, 512))
			io.WriteString(c, answer)
			c.Close()
		}()
	}
}

// probeOnce prints that it starts, and the result.
func probeOnce(target netip.AddrPort) {
	what := sources.Probe{Type: sources.CheckHTTP, Timeout: 6 * time.Second}
	fmt.Println("started")
	fmt.Println(new(Prober).Do(context.Background(), &what, target, Meta{}))
}

// trace traces a process, and prints that it does or why it cannot. While it runs only it could reap the process.
func trace(process string) {
	runtime.LockOSThread()
	pid, err := strconv.Atoi(process)
	if err == nil {
		err = unix.PtraceSeize(pid)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("traced")
	time.Sleep(time.Hour) // until it is killed
}

// runFor probes once a minute, and prints that the probe has started, and the first result.
func runFor(target netip.AddrPort) {
	result := make(chan Result)
	r := newRunner(func(ctx context.Context, what *sources.Probe, target netip.AddrPort, m Meta) Result {
		fmt.Println("started")
		return new(Prober).Do(ctx, what, target, m)
	}, func(_ *Target, r Result) Next {
		result <- r
		return Next{After: time.Minute}
	}, Limits{})
	r.Add(&Target{Probe: &sources.Probe{Type: sources.CheckHTTP, Timeout: 6 * time.Second}, Address: target}, minInterval)
	go r.Run(context.Background())
	fmt.Println(<-result)
}

// child starts this program in another role, in new namespaces if flags say so, and returns what it prints.
func child(t testing.TB, role string, flags ...uintptr) (*bufio.Reader, *os.Process) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	for _, f := range flags {
		cmd.SysProcAttr.Cloneflags |= f
	}
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return bufio.NewReader(out), cmd.Process
}

func readChild(t testing.TB, out *bufio.Reader) string {
	t.Helper()
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// TestStoppedProcess stops the prober for longer than its timeout. If the server answers in the meantime, the answer
// counts. Otherwise the probe says nothing about it.
func TestStoppedProcess(t *testing.T) {
	for want, answer := range map[string]string{"ok": "HTTP/1.1 200 OK\r\n\r\n", "void: this process was late": ""} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			asked, stopped := make(chan bool, 1), make(chan bool)
			out, process := child(t, "prober "+serve(t, func(c net.Conn) {
				c.Read(make([]byte, 512))
				asked <- true
				<-stopped
				io.WriteString(c, answer)
				hangs(c)
			}).String())
			if got := readChild(t, out); got != "started" {
				t.Fatal(got)
			}
			<-asked
			process.Signal(syscall.SIGSTOP)
			close(stopped)
			time.Sleep(10 * time.Second) // real time, in another process
			process.Signal(syscall.SIGCONT)
			if got := readChild(t, out); got != want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestStallWithinProbe stops the process for a part of the timeout that is over when the timeout ends.
func TestStallWithinProbe(t *testing.T) {
	t.Parallel()
	asked := make(chan bool, 1)
	out, process := child(t, "runner "+serve(t, func(c net.Conn) {
		c.Read(make([]byte, 512))
		asked <- true
		hangs(c)
	}).String())
	if got := readChild(t, out); got != "started" {
		t.Fatal(got)
	}
	<-asked
	process.Signal(syscall.SIGSTOP)
	time.Sleep(3 * time.Second) // real time, in another process
	process.Signal(syscall.SIGCONT)
	if got := readChild(t, out); got != "void: this process was late" {
		t.Errorf("got %q", got)
	}
}

// TestNoRoute probes from a network namespace that has no route.
func TestNoRoute(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a network namespace")
	}
	out, _ := child(t, "prober 192.0.2.1:80", syscall.CLONE_NEWNET)
	readChild(t, out)
	if got := readChild(t, out); got != "void: no route: network is unreachable" {
		t.Errorf("got %q", got)
	}
}

// BenchmarkLoad probes many addresses of 127/8 for the time that the environment variable LOAD gives, 20 s by
// default, and reports this process's share of one core, the lateness and the memory. The server is another process:
//
//	go test -run '^$' -bench Load -benchtime 1x ./proxy/health/probe
func BenchmarkLoad(b *testing.B) {
	for _, load := range []struct {
		kind     sources.CheckType
		targets  int
		interval time.Duration
		answer   string
	}{
		{sources.CheckTCP, 25000, 5 * time.Second, ""},
		{sources.CheckHTTP, 5000, 2 * time.Second, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"},
	} {
		b.Run(fmt.Sprintf("%s-%d-%v", load.kind, load.targets, load.interval), func(b *testing.B) {
			for range b.N {
				measureLoad(b, load.kind, load.targets, load.interval, load.answer)
			}
		})
	}
}

func measureLoad(b *testing.B, kind sources.CheckType, targets int, interval time.Duration, answer string) {
	length := 20 * time.Second
	if text := os.Getenv("LOAD"); text != "" {
		length, _ = time.ParseDuration(text)
	}
	out, _ := child(b, "server "+answer)
	port := netip.MustParseAddrPort("0.0.0.0:" + readChild(b, out)).Port()
	what := &sources.Probe{Type: kind, Timeout: 2 * time.Second}
	before := memory()
	outcomes := make(chan Outcome, 1<<20)
	r := NewRunner(new(Prober), func(_ *Target, r Result) Next {
		outcomes <- r.Outcome
		return Next{After: interval}
	}, Limits{})
	for i := range targets {
		address := netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)})
		r.Add(&Target{Probe: what, Address: netip.AddrPortFrom(address, port), Jitter: 0.1}, interval)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go r.Run(ctx)
	time.Sleep(interval) // until every target has been probed
	start, used := time.Now(), cpu()
	time.Sleep(length)
	share := float64(cpu()-used) / float64(time.Since(start)) * 100
	s := r.Stats()
	b.ReportMetric(share, "%-of-a-core")
	b.ReportMetric(float64(s.LateQuantile(0.99).Milliseconds()), "late-p99-ms")
	b.ReportMetric(float64(s.LateMax.Milliseconds()), "late-max-ms")
	b.ReportMetric(float64(s.Started)/(length+interval).Seconds(), "probes/s")
	b.ReportMetric(float64(memory()-before)/(1<<20), "MB")
	var failed, void int
	for range len(outcomes) {
		switch <-outcomes {
		case OK:
		case Void:
			void++
		default:
			failed++
		}
	}
	b.ReportMetric(float64(failed), "failed")
	b.ReportMetric(float64(void), "void")
}

// cpu returns the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memory returns what the Go runtime has from the kernel, in bytes.
func memory() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}
