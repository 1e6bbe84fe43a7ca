package link

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Available says whether this kernel has dummy devices; asking makes it load
// them. If not the error is a *kernel.MissingError. No device is made: the one
// asked for has a multicast hardware address, which the kind itself refuses with
// EADDRNOTAVAIL (drivers/net/dummy.c, dummy_validate), if it is there to do so.
func (l *Links) Available() error {
	l.batch.Reset()
	l.batch.Begin(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	l.batch.Raw(ifInfo(0))
	l.batch.Attr(unix.IFLA_ADDRESS, []byte{1, 0, 0, 0, 0, 0})
	info := l.batch.Nest(unix.IFLA_LINKINFO)
	l.batch.Text(unix.IFLA_INFO_KIND, l.kind)
	l.batch.EndNest(info)
	l.batch.End()
	err := l.conn.Send(&l.batch)
	l.batch.Reset()
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return nil
	case errors.Is(err, unix.EOPNOTSUPP):
		return errNoDummy
	case err == nil:
		err = errors.New("it took a hardware address that no device can have")
	}
	return fmt.Errorf("asking the kernel for %s devices: %w", l.kind, err)
}
