package probe

import (
	"bytes"
	"errors"
	"io"
	"syscall"
)

// maxAnswer is how much of an answer is searched for what is expected, in bytes.
const maxAnswer = 4 << 10

// errLacks says that an answer ended, or reached maxAnswer, without the expected bytes.
var errLacks = errors.New("the answer lacks the expected bytes")

// tcp connects. With Send or Expect it also talks.
func (a *attempt) tcp() Result {
	return a.talk(func(c *conn) Result {
		if a.Expect == "" {
			return Result{Outcome: OK}
		}
		err := find(c, []byte(a.Expect))
		a.done("ended")
		switch {
		case err == nil:
			return Result{Outcome: OK}
		case errors.Is(err, errLacks):
			return Result{Outcome: Answer}
		}
		return failure(err, "answer")
	})
}

// talk connects, sends what the probe sends, and returns what read makes of the connection.
func (a *attempt) talk(read func(*conn) Result) Result {
	c, err := a.dial(syscall.SOCK_STREAM, 0)
	if err != nil {
		return failure(err, "connect")
	}
	defer c.Close()
	if a.Send != "" {
		if _, err := io.WriteString(c, a.Send); err != nil {
			return failure(err, "send")
		}
		a.done("sent")
	}
	return read(c)
}

// find reads until it has seen want, at most maxAnswer bytes. It does not wait for more than it needs: a server may
// keep the connection open. An end without any answer is io.EOF.
func find(r io.Reader, want []byte) error {
	buf, n := make([]byte, maxAnswer), 0
	for n < len(buf) {
		got, err := r.Read(buf[n:])
		from := max(0, n-len(want)+1)
		n += got
		if bytes.Contains(buf[from:n], want) {
			return nil
		}
		switch {
		case err == io.EOF && n == 0:
			return io.EOF
		case err == io.EOF:
			return errLacks
		case err != nil:
			return err
		}
	}
	return errLacks
}
