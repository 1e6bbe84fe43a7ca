package ipvs

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	moby "github.com/moby/ipvs"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Timeouts returns how long IPVS keeps idle connections. Every sync reads them, so this is a single
// getsockopt. Netlink would take three system calls.
func (t *Table) Timeouts() (kernel.Timeouts, error) {
	timeouts, err := t.opt.timeouts()
	if err != nil {
		return kernel.Timeouts{}, fmt.Errorf("reading timeouts: %w", t.unloaded(err))
	}
	return timeouts, nil
}

// SetTimeouts sets the timeouts that are not 0 and leaves the others alone (ip_vs_set_timeout).
// They belong to this network namespace. A connection gets the new timeout with its next packet
// (set_tcp_state).
func (t *Table) SetTimeouts(to kernel.Timeouts) error {
	h, err := openLibrary()
	if err != nil {
		return err
	}
	defer h.Close()
	err = h.SetConfig(&moby.Config{
		TimeoutTCP:    time.Duration(to.TCP) * time.Second,
		TimeoutTCPFin: time.Duration(to.TCPFin) * time.Second,
		TimeoutUDP:    time.Duration(to.UDP) * time.Second,
	})
	switch {
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("the longest timeout is 2147483647 of the kernel's ticks: 24 days at 1000 a second (%w)", err)
	case errors.Is(err, unix.ENOBUFS):
		return fmt.Errorf("%w (%w)", kernel.ErrUnknownOutcome, err)
	}
	return err
}

// library is the message type of IPVS that moby/ipvs looked up at its first use. It keeps this
// number for the life of the process.
var library struct {
	sync.Mutex
	family uint16
}

// openLibrary opens moby/ipvs in the network namespace of the calling thread.
//
// Without ip_vs in the kernel the library would succeed with message type 0, and so would each of
// its calls without doing anything. So openLibrary first looks up the type itself. At its first use
// the library runs modprobe and logs to standard error if that fails, as it does in the sandbox of
// the systemd unit. The module is loaded by then, so the log is discarded.
func openLibrary() (*moby.Handle, error) {
	id, err := nl.Family(familyName)
	if errors.Is(err, nl.ErrNoFamily) {
		return nil, ErrUnavailable
	}
	if err != nil {
		return nil, err
	}
	library.Lock()
	defer library.Unlock()
	if library.family == 0 {
		library.family = id
		logrus.SetOutput(io.Discard)
	}
	if library.family != id {
		return nil, errors.New("module ip_vs was loaded again: restart svcproxy to set timeouts")
	}
	return moby.New("")
}
