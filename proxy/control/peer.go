package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/user"
	"strconv"
	"syscall"

	"github.com/svcproxy/svcproxy/proxy/health"
)

// peer returns the credentials of the process at the other end of a Unix socket; of a client's socket, those of the
// process that listens.
func peer(c net.Conn) (*syscall.Ucred, error) {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = wrapped.NetConn()
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("not a Unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *syscall.Ucred
	if failed := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); failed != nil {
		return nil, failed
	}
	return cred, err
}

// client names the user who connected, for web.Limit. Root always gets in.
func client(c net.Conn) (string, bool) {
	cred, err := peer(c)
	if err != nil {
		return "", false
	}
	return strconv.Itoa(int(cred.Uid)), cred.Uid == 0
}

// peerKey is the key of a connection's *syscall.Ucred in the contexts of its requests.
type peerKey struct{}

// withPeer is the ConnContext of the server.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if cred, err := peer(c); err == nil {
		return context.WithValue(ctx, peerKey{}, cred)
	}
	return ctx
}

// AskedBy names who sends the request of a context: "root (uid 0)"; "" if that is not known.
func AskedBy(ctx context.Context) string {
	cred, ok := ctx.Value(peerKey{}).(*syscall.Ucred)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s (uid %d)", userName(cred.Uid), cred.Uid)
}

// userName is the name of a user, or the id if there is none.
func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

// author returns who sends a request. A user without a name is named by the id.
func author(r *http.Request, why string) (health.Author, error) {
	cred, ok := r.Context().Value(peerKey{}).(*syscall.Ucred)
	if !ok {
		return health.Author{}, errors.New("it is not known who asks")
	}
	return health.Author{By: userName(cred.Uid), UID: cred.Uid, Why: why}, nil
}
