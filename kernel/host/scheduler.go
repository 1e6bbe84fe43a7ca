package host

import (
	"errors"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/ipvs"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Scheduler makes the kernel load a scheduler. If there is none of that name the error
// is a *kernel.MissingError. It opens its own socket, so it may be called while a Kernel
// is in use.
func Scheduler(name string) error {
	t, err := ipvs.Open(new(nl.Dialer))
	if err != nil {
		return err
	}
	defer t.Close()
	return schedulerError(name, t.Scheduler(name))
}

// schedulerError says how to get a scheduler that the kernel does not have.
func schedulerError(name string, err error) error {
	if errors.Is(err, ipvs.ErrScheduler) {
		return &kernel.MissingError{What: err.Error(), Hint: "modprobe ip_vs_" + name + ", or choose another scheduler"}
	}
	return err
}
