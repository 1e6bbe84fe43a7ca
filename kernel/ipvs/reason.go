package ipvs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// ErrScheduler is the error for a scheduler that the kernel does not have.
var ErrScheduler = errors.New("unknown scheduler")

// reason returns the error of an op in words. errors.Is still finds the errno.
func reason(op kernel.Op, err error) error {
	if errors.Is(err, nl.ErrUnknown) {
		return fmt.Errorf("%w (%w)", kernel.ErrUnknownOutcome, err)
	}
	var refused *nl.KernelError
	if !errors.As(err, &refused) {
		return err
	}
	v, isVirtual := op.Object.(kernel.Virtual)
	var text string
	switch refused.Errno {
	case unix.EEXIST:
		text = fmt.Sprintf("there is such a %v server already", op.Object.Kind())
	case unix.ESRCH:
		text = "no such virtual server"
	case unix.ENOENT:
		if isVirtual {
			return fmt.Errorf("%w %q: the kernel has no module ip_vs_%s (%w)", ErrScheduler, v.Scheduler, v.Scheduler, err)
		}
		text = "no such real server"
	case unix.EINVAL:
		switch {
		case isVirtual && v.Scheduler == "mh":
			text = "the kernel refuses scheduler mh for more real servers than its table has entries, 4093 by default"
		case isVirtual:
			return err
		default:
			text = "the kernel takes a real server only at a unicast or local address, and only once loopback has been up"
		}
	case unix.EAFNOSUPPORT:
		text = "this kernel's IPVS has no IPv6"
	case unix.EPERM:
		text = "CAP_NET_ADMIN is needed"
	case unix.ERANGE:
		text = "the largest weight is 2147483647"
	default:
		return err
	}
	return fmt.Errorf("%s (%w)", text, err)
}
