package nl

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

var (
	// ErrUnknown is the error of a message that may have been sent and whose reply was lost. The
	// receive buffer overflowed (ENOBUFS), the socket died, or no answer came in time. Read the
	// kernel to learn the outcome.
	ErrUnknown = errors.New("outcome unknown")

	// ErrUnsent is the error of a message that was not sent because the socket died before.
	ErrUnsent = errors.New("not sent")

	// ErrInterrupted is the error of a dump during which the table changed, in every attempt
	// (NLM_F_DUMP_INTR). The messages read are not one state.
	ErrInterrupted = errors.New("the table changed while it was read")

	// ErrTimeout is the error if the kernel does not answer within Timeout.
	ErrTimeout = errors.New("no answer from the kernel")

	// ErrNoFamily is the error if this kernel has no such generic netlink family and cannot load
	// it.
	ErrNoFamily = errors.New("no such generic netlink family")
)

// KernelError is an error returned by the kernel. errors.Is finds the errno in it.
type KernelError struct {
	Errno unix.Errno // positive; subsystems have their own codes from 4096 on
	Text  string     // the extended acknowledgement, or ""
	// Offset is where in the message the attribute begins that the kernel refused, counted from the
	// message's header. It is 0 if the kernel named none.
	Offset uint32
}

func (e *KernelError) Error() string {
	if e.Text != "" {
		return fmt.Sprintf("%v (%s)", e.Errno, e.Text)
	}
	return e.Errno.Error()
}

func (e *KernelError) Unwrap() error { return e.Errno }

// MessageError is the error of one message in a batch.
type MessageError struct {
	Index int // index returned by Batch.End

	// Err is a *KernelError if the kernel rejected the message. Otherwise it wraps ErrUnknown or
	// ErrUnsent.
	Err error

	// Echo is the message as the kernel returned it, from its header on. It is nil unless the
	// subsystem writes its own reply, as ipset does to name the line where it stopped.
	Echo []byte
}

func (e *MessageError) Error() string { return fmt.Sprintf("message %d: %v", e.Index, e.Err) }

func (e *MessageError) Unwrap() error { return e.Err }

// BatchError has the messages of a Conn.Send that failed or may have failed, by index. The others
// succeeded.
type BatchError struct {
	Sent     int // number of messages in the batch
	Messages []MessageError
}

func (e *BatchError) Error() string {
	first := &e.Messages[0]
	return fmt.Sprintf("%d of %d netlink messages failed, the first: %v", len(e.Messages), e.Sent, first)
}

// Unwrap lets errors.Is and errors.As look at each message.
func (e *BatchError) Unwrap() []error {
	errs := make([]error, len(e.Messages))
	for i := range e.Messages {
		errs[i] = &e.Messages[i]
	}
	return errs
}
