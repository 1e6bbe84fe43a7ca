package lab

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// maxCaptured is how many packets a Capture keeps.
const maxCaptured = 10000

// A Capture notes the IP packets that come and go by the links of a host, each without its link's header.
type Capture struct {
	fd    int
	stop  atomic.Bool
	going sync.WaitGroup
	all   [][]byte
}

// Capture starts one.
func (ns *Namespace) Capture() (*Capture, error) {
	c := &Capture{}
	err := ns.Do(func() (err error) {
		all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
		c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(all))
		return os.NewSyscallError("socket", err)
	})
	if err != nil {
		return nil, err
	}
	// read looks this often whether it should stop.
	if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}); err != nil {
		unix.Close(c.fd)
		return nil, os.NewSyscallError("setsockopt", err)
	}
	c.going.Go(c.read)
	return c, nil
}

func (c *Capture) read() {
	buf := make([]byte, 1<<16)
	for len(c.all) < maxCaptured {
		n, _, err := unix.Recvfrom(c.fd, buf, 0)
		switch {
		case err == nil:
			c.all = append(c.all, append([]byte(nil), buf[:n]...))
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			return
		case c.stop.Load():
			return
		}
	}
}

// Stop returns the packets, when no more come.
func (c *Capture) Stop() [][]byte {
	c.stop.Store(true)
	c.going.Wait()
	unix.Close(c.fd)
	return c.all
}
