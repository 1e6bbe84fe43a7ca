package control

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/svcproxy/svcproxy/kernel/statefile"
)

// maxPath is the longest path of a socket that a client can name: sun_path of
// unix(7) less its NUL.
const maxPath = 107

// group may open the socket besides root.
const group = "svcproxy"

// Listen makes the socket, with mode 0660 for the group svcproxy, if there is
// one. One that a dead daemon left is replaced: that there is no other daemon is
// the caller's to know.
func Listen(path string, log *slog.Logger) (net.Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("control socket %s: a socket's path has at most %d bytes", path, maxPath)
	}
	d, err := statefile.Make(filepath.Dir(path), 0o755)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	// Made beside and renamed over, so that at its name there is never one that
	// has yet to get its mode.
	name := filepath.Base(path)
	l, err := listen(d, name+"~", log)
	if err == nil {
		if err = d.Rename(name+"~", name); err == nil {
			return &socket{l, d, name}, nil
		}
		l.Close()
	}
	return nil, fmt.Errorf("control socket: %w", errors.Join(err, d.Remove(name+"~"), d.Close()))
}

// listen makes a socket that root and the group may open.
func listen(d *statefile.Dir, name string, log *slog.Logger) (net.Listener, error) {
	if err := d.Remove(name); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.Handle(name), Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := d.Chmod(name, 0o660); err != nil {
		l.Close()
		return nil, err
	}
	hand(d, name, log)
	return l, nil
}

// hand gives the socket to the group; that we may not is no reason to go without.
func hand(d *statefile.Dir, name string, log *slog.Logger) {
	g, err := user.LookupGroup(group)
	if err != nil {
		return // root alone, then
	}
	gid, err := strconv.Atoi(g.Gid)
	// The unit's process has the group, and its sandbox no chown.
	if err == nil && gid != os.Getegid() {
		err = d.Chgrp(name, gid)
	}
	if err != nil {
		log.Warn("the control socket is not for the group "+group, "err", err)
	}
}

// socket removes its name when it is closed.
type socket struct {
	net.Listener
	dir  *statefile.Dir
	name string
}

func (s *socket) Close() error {
	err := s.Listener.Close()
	if errors.Is(err, net.ErrClosed) {
		return err // a second time: by now the name may be another daemon's
	}
	return errors.Join(err, s.dir.Remove(s.name), s.dir.Close())
}
