package daemon

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// fileStore is systemd's store of file descriptors for this unit (FileDescriptorStoreMax=). It gives them to the next
// process. "" is none.
type fileStore string

// systemdStore is the store of NOTIFY_SOCKET.
func systemdStore() fileStore { return fileStore(os.Getenv("NOTIFY_SOCKET")) }

// keep stores a duplicate of a file under its name. FDPOLL=0: systemd is not to drop it by itself.
func (s fileStore) keep(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := raw.Control(func(fd uintptr) {
		sent = s.send("FDSTORE=1\nFDPOLL=0\nFDNAME="+f.Name(), syscall.UnixRights(int(fd)))
	}); err != nil {
		return err
	}
	return sent
}

// forget removes what is stored under a name.
func (s fileStore) forget(name string) error { return s.send("FDSTOREREMOVE=1\nFDNAME="+name, nil) }

func (s fileStore) send(text string, rights []byte) error {
	if s == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: string(s), Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("connecting to systemd: %w", err)
	}
	defer c.Close()
	if _, _, err := c.WriteMsgUnix([]byte(text), rights, nil); err != nil {
		return fmt.Errorf("notifying systemd: %w", err)
	}
	return nil
}
