package nl

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

var (
	// ErrUnknown marks a message that was sent, or may have been, and whose reply was lost: the
	// receive buffer overflowed (ENOBUFS), the socket died, or no answer came in time. The
	// kernel must be read again to know.
	ErrUnknown = errors.New("outcome unknown")

	// ErrUnsent marks a message that was not sent because the socket died before its turn.
	ErrUnsent = errors.New("not sent")

	// ErrInterrupted says that a table changed while it was dumped (NLM_F_DUMP_INTR), each time
	// it was tried: what was read is not one state.
	ErrInterrupted = errors.New("the table changed while it was read")

	// ErrTimeout says that the kernel did not answer within Timeout.
	ErrTimeout = errors.New("no answer from the kernel")

	// ErrNoFamily says that this kernel has no such generic netlink family and could not load it.
	ErrNoFamily = errors.New("no such generic netlink family")
)

// KernelError is a refusal by the kernel. errors.Is sees through it to the errno.
type KernelError struct {
	Errno unix.Errno // positive; subsystems have private ones from 4096 on
	Text  string     // the extended acknowledgement, or ""
}

func (e *KernelError) Error() string {
	if e.Text != "" {
		return fmt.Sprintf("%v (%s)", e.Errno, e.Text)
	}
	return e.Errno.Error()
}

func (e *KernelError) Unwrap() error { return e.Errno }

// MessageError says what became of one message of a batch.
type MessageError struct {
	Index int // as Batch.End returned it

	// Err is a *KernelError when the kernel refused the message, else it wraps ErrUnknown or
	// ErrUnsent.
	Err error

	// Echo is the message as the kernel sent it back, from its header on; nil unless the
	// subsystem wrote its own reply, as ipset does to name the line it stopped at.
	Echo []byte
}

func (e *MessageError) Error() string { return fmt.Sprintf("message %d: %v", e.Index, e.Err) }

func (e *MessageError) Unwrap() error { return e.Err }

// BatchError lists the messages of one Conn.Send that did not succeed for certain, by index.
// The others did.
type BatchError struct {
	Sent     int // how many messages the batch held
	Messages []MessageError
}

func (e *BatchError) Error() string {
	first := &e.Messages[0]
	return fmt.Sprintf("%d of %d netlink messages failed, the first: %v", len(e.Messages), e.Sent, first)
}

// Unwrap lets errors.Is and errors.As ask about any of the messages.
func (e *BatchError) Unwrap() []error {
	errs := make([]error, len(e.Messages))
	for i := range e.Messages {
		errs[i] = &e.Messages[i]
	}
	return errs
}
