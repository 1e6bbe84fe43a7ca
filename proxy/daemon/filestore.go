package daemon

import (
	"fmt"
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
	// Package net sends no file descriptors on a connected datagram socket.
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("notifying systemd: %w", err)
	}
	defer syscall.Close(fd)
	if err := syscall.Sendmsg(fd, []byte(text), rights, &syscall.SockaddrUnix{Name: string(s)}, 0); err != nil {
		return fmt.Errorf("notifying systemd: %w", err)
	}
	return nil
}
