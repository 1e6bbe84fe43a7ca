package control

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"strconv"
)

// maxPath is the longest path of a socket: sun_path of unix(7) less its NUL, and
// less what is added while it is made.
const maxPath = 107 - len("~")

// group may open the socket besides root.
const group = "svcproxy"

// Listen makes the socket, with mode 0660 for the group svcproxy, if there is
// one. One that a dead daemon left is replaced: that there is no other daemon is
// the caller's to know.
func Listen(path string, log *slog.Logger) (net.Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("control socket %s: a socket's path has at most %d bytes", path, maxPath)
	}
	// Made beside and renamed over, so that at its name there is never one that
	// has yet to get its mode.
	made := path + "~"
	if err := os.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(made, 0o660)
	if err == nil {
		hand(made, log)
		err = os.Rename(made, path)
	}
	if err != nil {
		l.Close()
		os.Remove(made)
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return &socket{l, path}, nil
}

// hand gives the socket to the group; that we may not is no reason to go without.
func hand(path string, log *slog.Logger) {
	g, err := user.LookupGroup(group)
	if err != nil {
		return // root alone, then
	}
	gid, err := strconv.Atoi(g.Gid)
	// The unit's process has the group, and its sandbox no chown.
	if err == nil && gid != os.Getegid() {
		err = os.Chown(path, -1, gid)
	}
	if err != nil {
		log.Warn("the control socket is not for the group "+group, "err", err)
	}
}

// socket removes its name when it is closed.
type socket struct {
	net.Listener
	path string
}

func (s *socket) Close() error {
	err := s.Listener.Close()
	if errors.Is(err, net.ErrClosed) {
		return err // a second time: by now the name may be another daemon's
	}
	return errors.Join(err, os.Remove(s.path))
}
