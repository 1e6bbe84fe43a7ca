package main

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A webBackend answers HTTP on a port for each service, and can be made to fail. It is
// not net/http's server: that takes most of an emulated processor.
type webBackend struct {
	host      *lab.Backend
	ports     []int
	failing   atomic.Bool // every answer is 500
	listeners []net.Listener
}

// listen opens the ports.
func (w *webBackend) listen() error {
	for _, port := range w.ports {
		l, err := w.host.Listen(port)
		if err != nil {
			return err
		}
		w.listeners = append(w.listeners, l)
		go w.serve(l)
	}
	return nil
}

// close refuses new connections.
func (w *webBackend) close() error {
	var errs []error
	for _, l := range w.listeners {
		errs = append(errs, l.Close())
	}
	w.listeners = nil
	return errors.Join(errs...)
}

// drop has the kernel drop whatever comes, as for a host that is switched off.
func (w *webBackend) drop(on bool) error {
	verb := "-D"
	if on {
		verb = "-I"
	}
	_, err := w.host.Run("iptables", verb, "INPUT", "-j", "DROP")
	return err
}

func (w *webBackend) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go w.answer(c)
	}
}

// answer takes whatever is sent first for a request.
func (w *webBackend) answer(c net.Conn) {
	defer c.Close()
	var request [1024]byte
	if n, _ := c.Read(request[:]); n == 0 {
		return // a check that only connects
	}
	status := "200 OK"
	if w.failing.Load() {
		status = "500 Internal Server Error"
	}
	fmt.Fprintf(c, "HTTP/1.0 %s\r\nContent-Length: %d\r\n\r\n%s", status, len(w.host.Name), w.host.Name)
}
