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

// maxPath is the longest path that a client can connect to: sun_path of unix(7)
// without its NUL.
const maxPath = 107

// group may open the socket, as root may.
const group = "svcproxy"

// Listen makes the socket with mode 0660, for the group svcproxy if it exists. It
// replaces a socket that is already there: the caller knows that no other daemon
// runs.
func Listen(path string, log *slog.Logger) (net.Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("control socket %s: a socket's path has at most %d bytes", path, maxPath)
	}
	d, err := statefile.Make(filepath.Dir(path), 0o755)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	// Rename a finished socket into place, so that the name never leads to one that
	// does not have its mode yet.
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

// listen makes a socket for root and the group.
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
	changeGroup(d, name, log)
	return l, nil
}

// changeGroup gives the socket to the group. If it may not, it logs a warning, and
// only root can use the socket.
func changeGroup(d *statefile.Dir, name string, log *slog.Logger) {
	g, err := user.LookupGroup(group)
	if err != nil {
		return // only root can use it
	}
	gid, err := strconv.Atoi(g.Gid)
	// Under systemd the process already has the group, and its sandbox forbids chown.
	if err == nil && gid != os.Getegid() {
		err = d.Chgrp(name, gid)
	}
	if err != nil {
		log.Warn("only root can use the control socket: it could not be given to the group "+group, "err", err)
	}
}

// socket is a listener that removes its file when it is closed.
type socket struct {
	net.Listener
	dir  *statefile.Dir
	name string
}

func (s *socket) Close() error {
	err := s.Listener.Close()
	if errors.Is(err, net.ErrClosed) {
		return err // closed before; by now the file may belong to another daemon
	}
	return errors.Join(err, s.dir.Remove(s.name), s.dir.Close())
}
