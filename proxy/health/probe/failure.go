package probe

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// ownFaults are errors of this machine. They say nothing about an endpoint.
var ownFaults = map[syscall.Errno]bool{
	syscall.EMFILE: true, syscall.ENFILE: true, // no file descriptor
	syscall.EADDRNOTAVAIL: true, syscall.EAGAIN: true, // no free source port
	syscall.ENOBUFS: true, syscall.ENOMEM: true, // no memory
	syscall.EPERM: true, // no capability, or the local firewall drops the probe
}

// noRoute are errors of this node's routes and links if a system call returns them before a packet has left:
// no route, one of type unreachable, prohibit or blackhole, a link that is down. The same numbers come later
// from ICMP and ARP, and then they tell of the network and of the endpoint.
var noRoute = map[syscall.Errno]bool{
	syscall.ENETUNREACH: true, syscall.EHOSTUNREACH: true, syscall.EACCES: true, syscall.EINVAL: true,
	syscall.ENETDOWN: true, syscall.ENODEV: true,
}

// unsentError is an error with which this node refused to send a packet.
type unsentError struct{ errno syscall.Errno }

func (e unsentError) Error() string { return "no route: " + e.errno.Error() }

// connectError returns the error of a connect that failed at once.
func connectError(errno syscall.Errno) error {
	if noRoute[errno] {
		return unsentError{errno}
	}
	return os.NewSyscallError("connect", errno)
}

// failure returns the result of an error of a socket. during names the step: connect, send, answer.
func failure(err error, during string) Result {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return result(Timeout, during)
	}
	if refused, ok := errors.AsType[unsentError](err); ok {
		r := result(Void, refused.Error())
		r.Unsent = true
		return r
	}
	// What fails before the connect is this machine's: a source address or an interface that it does not have.
	if call, ok := errors.AsType[*os.SyscallError](err); ok && call.Syscall != "connect" {
		return result(Void, call.Error())
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errnoFailure(errno, during)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return result(Closed, during)
	}
	// Only crypto/tls makes these here: the sockets are files.
	if alert, ok := errors.AsType[*net.OpError](err); ok {
		return result(TLS, tlsText(alert))
	}
	return result(Malformed, err.Error())
}

func errnoFailure(errno syscall.Errno, during string) Result {
	switch errno {
	case syscall.ECONNREFUSED:
		return Result{Outcome: Refused}
	case syscall.ETIMEDOUT:
		return result(Timeout, during)
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED:
		return result(Reset, during)
	}
	if ownFaults[errno] {
		return result(Void, errno.Error())
	}
	// EHOSTUNREACH and ENETUNREACH of ICMP and ARP, and the rarer answers of ICMP.
	return result(Unreachable, errno.Error())
}
