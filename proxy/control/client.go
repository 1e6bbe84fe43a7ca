package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// askLimit bounds every request except a reload.
const askLimit = 30 * time.Second

// Client asks the daemon behind a socket. Its errors have the exit code
// cli.NoDaemon if no daemon answers, and cli.Permission if the socket cannot be
// opened.
type Client struct{ Socket string }

// Status asks for the status, with all endpoints or only their counts.
func (c Client) Status(ctx context.Context, endpoints bool) (status.Status, error) {
	if endpoints {
		return c.status(ctx, nil)
	}
	return c.status(ctx, url.Values{"endpoints": {"none"}})
}

// Detail asks for the status with the endpoints of the named services only, and
// with the traffic of these.
func (c Client) Detail(ctx context.Context, names []string) (status.Status, error) {
	return c.status(ctx, url.Values{"detail": {strings.Join(names, ",")}})
}

func (c Client) status(ctx context.Context, query url.Values) (st status.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	err = c.ask(ctx, http.MethodGet, "/v1/status?"+query.Encode(), func(r io.Reader) error {
		return json.NewDecoder(r).Decode(&st)
	})
	return st, err
}

// Reload has the daemon read all files again. With wait it returns the result when
// everything valid in them is programmed. Without, it returns at once, without a
// result.
func (c Client) Reload(ctx context.Context, wait bool) (Reloaded, error) {
	var result Reloaded
	if !wait {
		return result, c.ask(ctx, http.MethodPost, "/v1/reload", func(io.Reader) error { return nil })
	}
	ctx, cancel := context.WithTimeout(ctx, reloadLimit+askLimit)
	defer cancel()
	return result, c.ask(ctx, http.MethodPost, "/v1/reload?wait=1", func(r io.Reader) error {
		return json.NewDecoder(r).Decode(&result)
	})
}

func (c Client) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", c.Socket)
}

// ask makes one request on its own connection.
func (c Client) ask(ctx context.Context, method, path string, read func(io.Reader) error) error {
	return c.request(ctx, method, path, func(r *http.Response) error { return read(r.Body) })
}

// request is ask with the whole answer.
func (c Client) request(ctx context.Context, method, path string, read func(*http.Response) error) error {
	return c.send(ctx, method, path, nil, nil, read)
}

// send is request with headers and a body.
func (c Client) send(
	ctx context.Context, method, path string, header http.Header, body io.Reader, read func(*http.Response) error,
) error {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://svcproxy"+path, body)
	if err != nil {
		return err
	}
	maps.Copy(req.Header, header)
	resp, err := transport.RoundTrip(req)
	if errors.Is(err, context.Canceled) {
		return err
	}
	if err != nil {
		return c.unreachable(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxHeader))
		return errors.Join(&refusedError{resp.StatusCode, strings.TrimSpace(string(text))}, err)
	}
	if err := read(resp); err != nil {
		return fmt.Errorf("svcproxy's answer: %w", err)
	}
	return nil
}

// unreachable explains why there is no answer, and what to do.
func (c Client) unreachable(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &cli.Error{Code: cli.Permission, Err: fmt.Errorf("asking svcproxy: %w", err),
			Hint: "run as root, or as a member of the group " + group}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		err = fmt.Errorf("svcproxy does not run: no process listens at %s", c.Socket)
	default:
		err = fmt.Errorf("svcproxy does not answer at %s: %w", c.Socket, err)
	}
	return &cli.Error{Code: cli.NoDaemon, Err: err, Hint: "systemctl status svcproxy"}
}
