package probe

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// udp sends one datagram. An ICMP error is a failure. Silence is ok unless an answer is expected: most servers
// ignore what they do not understand.
func (a *attempt) udp() Result {
	c, err := a.dial(syscall.SOCK_DGRAM, 0)
	if err != nil {
		return failure(err, "connect")
	}
	defer c.Close()
	if _, err := c.Write([]byte(a.Send)); err != nil {
		return failure(err, "send")
	}
	a.done("sent")
	buf := make([]byte, maxAnswer)
	n, err := c.Read(buf)
	a.done("ended")
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && a.Expect == "":
		return Result{Outcome: OK, Detail: noAnswer}
	case err != nil && err != io.EOF: // EOF is an empty datagram
		return failure(err, "answer")
	case !bytes.Contains(buf[:n], []byte(a.Expect)):
		return Result{Outcome: Answer}
	}
	return Result{Outcome: OK}
}

// receive reads datagrams until accept takes one, and returns its result. It skips others, which may be forged or
// belong to an earlier probe. A flood of them ends with the deadline.
func receive(c *conn, accept func(datagram []byte) (Result, bool)) Result {
	buf := make([]byte, maxAnswer)
	for time.Now().Before(c.until) {
		n, err := c.Read(buf)
		if err != nil && err != io.EOF {
			return failure(err, "answer")
		}
		if r, ok := accept(buf[:n]); ok {
			return r
		}
	}
	return result(Timeout, "answer")
}
