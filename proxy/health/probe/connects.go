package probe

import (
	"context"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/sources"
)

const (
	// firstLook is how soon a runner looks whether connections are made that were not at once. Go's timers are not
	// finer. The time to the next look doubles, up to turnGap.
	firstLook = time.Millisecond
	// maxIdle bounds the sockets that wait for their next probe, for each address family. At 5,000 probes a second
	// 100 start in a turn. On a busy machine this process gets no processor for up to a second, and then starts many more
	// at once: with 256 sockets a probe took 25 us instead of 18 us.
	maxIdle = 2000
)

// congestion is the congestion control of probes, which send no data. Every kernel has it, and it needs no set-up
// for each connection: a probe with BBR, the default of some nodes, took 0.7 us more. It is a variable for a test.
var congestion = "reno"

// connects makes the connections of tcp probes that only connect, which are most probes of a large node. The runner's
// goroutine makes all that are due in a turn, and one poll says which of them have an answer.
type connects struct {
	prober  *Prober // nil if this runner makes none
	begun   []begun // in this turn
	pending []connecting
	polls   []unix.PollFd // of pending, in the same order
	pools   [2]pool       // of IPv4 and of IPv6
}

// pool has the sockets of an address family that are used again. All have the same source port, so that a target is
// always probed by the same connection. The kernel then has one conntrack entry for a target, because the next SYN
// replaces an entry that our own RST closed. With other ports each probe leaves an entry that lives for 10 s. A bound
// socket also needs no search for a port.
type pool struct {
	port int   // 0: none is chosen yet
	hold int   // a socket that never connects: no other program can listen at the port
	idle []int // sockets without a peer
}

// connecting is a probe whose connection is being made.
type connecting struct {
	begun
	attempt
	pooled bool // its socket is one of a pool
}

// makes reports whether it makes the connection of a probe: a tcp probe that neither sends nor expects anything.
func (c *connects) makes(what *sources.Probe) bool {
	return c.prober != nil && onlyConnects(what) && !what.Way.Forward.Unchanged()
}

func onlyConnects(what *sources.Probe) bool {
	return what.Type == sources.CheckTCP && what.Send == "" && what.Expect == ""
}

// busy reports whether connections have begun that have not ended.
func (c *connects) busy() bool { return len(c.begun)+len(c.pending) > 0 }

// close closes all sockets. Connections that are being made end without a result.
func (c *connects) close() {
	for _, p := range c.polls {
		syscall.Close(int(p.Fd))
	}
	for i := range c.pools {
		c.pools[i].close()
	}
	*c = connects{prober: c.prober}
}

// gap waits for turnGap. It makes the connections of this turn, and finishes those that are made in the meantime.
func (r *Runner) gap(ctx context.Context) {
	end, wait := time.Now().Add(turnGap), turnGap
	if len(r.conns.begun) > 0 {
		wait = firstLook
		r.connect(ctx)
	}
	for r.conns.busy() {
		r.look(ctx)
		left := time.Until(end)
		if left <= 0 {
			return
		}
		if r.conns.busy() {
			time.Sleep(min(wait, left))
			wait *= 2
		}
	}
	time.Sleep(time.Until(end))
}

// connect starts the connections of this turn.
func (r *Runner) connect(ctx context.Context) {
	c := &r.conns
	for _, b := range c.begun {
		t := b.target
		p := connecting{begun: b, attempt: c.prober.attempt(ctx, t.Probe, t.Address, t.Meta)}
		fd, pooled, err := c.start(&p.attempt, t.failed)
		if err != nil {
			r.finish(ctx, b, p.judge(failure(err, "connect")))
			continue
		}
		p.pooled = pooled
		// A server on this machine has answered before connect returns. If the probe ends at once, the next one uses the
		// same socket, while it is in the processor's cache.
		if outcome, ended := c.made(&p, fd); ended {
			r.conclude(ctx, &p, outcome)
			continue
		}
		c.pending = append(c.pending, p)
		c.polls = append(c.polls, unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT})
	}
	clear(c.begun)
	c.begun = c.begun[:0]
}

// look finishes the connections that are made, have failed or are out of time. An answer counts however late it is
// read: the kernel took it without this process.
func (r *Runner) look(ctx context.Context) {
	c := &r.conns
	failed := pollNow(c.polls)
	now := time.Now()
	for i := len(c.pending) - 1; i >= 0; i-- {
		p, fd := c.pending[i], int(c.polls[i].Fd)
		var outcome Result
		ended := false
		if failed == 0 && c.polls[i].Revents != 0 {
			outcome, ended = c.made(&p, fd)
		}
		switch {
		case ended:
		case p.begun.target.cut:
			syscall.Close(fd)
			outcome = result(Void, "cut short")
		case failed == syscall.EINTR || now.Before(p.deadline):
			continue
		case failed != 0:
			syscall.Close(fd)
			outcome = failure(os.NewSyscallError("poll", failed), "connect")
		default:
			syscall.Close(fd)
			outcome = result(Timeout, "connect")
		}
		last := len(c.pending) - 1
		c.pending[i], c.polls[i] = c.pending[last], c.polls[last]
		c.pending[last] = connecting{}
		c.pending, c.polls = c.pending[:last], c.polls[:last]
		r.conclude(ctx, &p, outcome)
	}
}

// conclude reports the result of a connection that has ended.
func (r *Runner) conclude(ctx context.Context, p *connecting, outcome Result) {
	p.begun.target.failed = outcome.Outcome != OK
	r.finish(ctx, p.begun, p.judge(outcome))
}

// start sends a SYN. After a probe that failed it comes from another port: on the network's path of the last one, or
// in the server, something may be wrong that only that connection meets.
func (c *connects) start(a *attempt, failed bool) (fd int, pooled bool, err error) {
	if p := c.poolFor(a); p != nil && !failed {
		if fd, err = p.socket(a); err != nil {
			return 0, false, err
		}
		errno := connect(fd, a.target)
		if errno == 0 || errno == syscall.EINPROGRESS {
			return fd, true, nil
		}
		syscall.Close(fd)
		if errno != syscall.EADDRNOTAVAIL { // another target of this address and port is being probed
			return 0, false, connectError(errno)
		}
	}
	if fd, err = a.openDeferred(); err != nil {
		return 0, false, err
	}
	if errno := connect(fd, a.target); errno != 0 && errno != syscall.EINPROGRESS {
		syscall.Close(fd)
		return 0, false, connectError(errno)
	}
	return fd, false, nil
}

// openDeferred returns a socket with the options of a probe. TCP_DEFER_ACCEPT has another meaning on a socket that
// connects: the kernel holds back the ACK of the server's SYN-ACK, for 200 ms at most, and the RST that ends the probe
// goes out in its place. The server's kernel forgets the connection, and the program that listens never sees it: no
// wake-up, and no line about a client that hung up. HAProxy's tcp checks do the same.
func (a *attempt) openDeferred() (int, error) {
	fd, err := a.open(syscall.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_TCP, syscall.TCP_DEFER_ACCEPT, 1); err != nil {
		syscall.Close(fd)
		return 0, os.NewSyscallError("setsockopt", err)
	}
	// It only saves time, so an error does not matter: net.ipv4.tcp_allowed_congestion_control may forbid it to a
	// process without CAP_NET_ADMIN.
	_ = syscall.SetsockoptString(fd, syscall.SOL_TCP, unix.TCP_CONGESTION, congestion)
	return fd, nil
}

// poolFor returns the pool whose sockets a probe may use, nil if it needs one of its own: one bound to an interface
// outlives the interface, and would fail when another one of that name has come.
func (c *connects) poolFor(a *attempt) *pool {
	switch {
	case a.Mark != 0 || a.Interface != "" || a.Source.IsValid():
		return nil
	case a.target.Addr().Is4():
		return &c.pools[0]
	}
	return &c.pools[1]
}

// socket returns a socket that an earlier probe has left, or another one with the same port.
func (p *pool) socket(a *attempt) (int, error) {
	if last := len(p.idle) - 1; last >= 0 {
		fd := p.idle[last]
		p.idle = p.idle[:last]
		return fd, nil
	}
	if p.port == 0 {
		if err := p.choose(a); err != nil {
			return 0, err
		}
	}
	fd, err := a.openDeferred()
	if err != nil {
		return 0, err
	}
	if err := bindShared(fd, a.target.Addr(), p.port); err != nil {
		syscall.Close(fd)
		return 0, err
	}
	return fd, nil
}

// choose takes a port that the kernel chooses.
func (p *pool) choose(a *attempt) error {
	fd, err := a.open(syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	err = bindShared(fd, a.target.Addr(), 0)
	var own syscall.Sockaddr
	if err == nil {
		own, err = syscall.Getsockname(fd)
	}
	if err != nil {
		syscall.Close(fd)
		return err
	}
	p.hold = fd
	switch own := own.(type) {
	case *syscall.SockaddrInet4:
		p.port = own.Port
	case *syscall.SockaddrInet6:
		p.port = own.Port
	}
	return nil
}

// bindShared binds a socket to a port of all addresses of like's family, which other sockets may have too.
func bindShared(fd int, like netip.Addr, port int) error {
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	all := netip.IPv4Unspecified()
	if like.Is6() {
		all = netip.IPv6Unspecified()
	}
	return os.NewSyscallError("bind", syscall.Bind(fd, sockaddr(netip.AddrPortFrom(all, uint16(port)))))
}

// close closes the sockets of a pool.
func (p *pool) close() {
	if p.port != 0 {
		syscall.Close(p.hold)
	}
	for _, fd := range p.idle {
		syscall.Close(fd)
	}
}

// made returns the result of a connection, and reports whether it has ended. A second connect says how the first one
// went, as in finishConnect.
func (c *connects) made(p *connecting, fd int) (Result, bool) {
	switch errno := connect(fd, p.attempt.target); errno {
	case 0, syscall.EISCONN:
		return c.end(p, fd), true
	case syscall.EALREADY, syscall.EINTR:
		return Result{}, false
	default:
		syscall.Close(fd)
		return failure(os.NewSyscallError("connect", errno), "connect"), true
	}
}

// end resets a connection, and returns the result. Only a socket that has connected is used again: it has no error left
// that the next probe would see.
func (c *connects) end(p *connecting, fd int) Result {
	from := c.poolFor(&p.attempt)
	// The port of a pooled socket is known.
	itself := (!p.pooled || from.port == int(p.attempt.target.Port())) && connectedToItself(fd, p.attempt.target)
	if !p.pooled || len(from.idle) == maxIdle || disconnect(fd) != 0 {
		syscall.Close(fd)
	} else {
		from.idle = append(from.idle, fd)
	}
	if itself {
		return Result{Outcome: Refused}
	}
	return Result{Outcome: OK}
}

// disconnect resets a connection, and makes the socket ready for the next one. A new socket instead costs 6 us.
func disconnect(fd int) syscall.Errno {
	var unspecified syscall.RawSockaddr // AF_UNSPEC is 0
	return rawConnect(fd, unsafe.Pointer(&unspecified), unsafe.Sizeof(unspecified))
}

// pollNow is unix.Poll without waiting. That one tells Go's scheduler of the call, because it may block: the runtime's
// monitor thread then wakes every 20 us while this process runs, 3 % of the processor time.
func pollNow(fds []unix.PollFd) syscall.Errno {
	if len(fds) == 0 {
		return 0
	}
	var wait syscall.Timespec
	_, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)),
		uintptr(unsafe.Pointer(&wait)), 0, 0, 0)
	return errno
}
