package relay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// listener takes the connections or datagrams of a virtual server.
type listener struct {
	socket
	s       *service
	flows   flows // over UDP
	once    sync.Once
	started bool          // guarded by r.mu
	done    chan struct{} // closed with it
}

// listen takes the inherited listener of the service, or binds one. r.mu is held.
func (s *service) listen(at netip.AddrPort) (*listener, error) {
	l := &listener{s: s, done: make(chan struct{})}
	if have, ok := s.r.inherited[s.key]; ok {
		if have.addr() == at {
			delete(s.r.inherited, s.key)
			l.socket = have
			return l, nil
		}
		s.r.drop(s.key, have)
	}
	if !s.r.files.take(1) {
		return nil, refused("the limit of open files is reached", syscall.EMFILE)
	}
	var err error
	if l.socket, err = open(s.key.Proto, at); err != nil {
		s.r.files.give(1)
		return nil, fmt.Errorf("listening on %v: %w", at, err)
	}
	return l, nil
}

// start begins to take connections. r.mu is held.
func (l *listener) start() {
	if l.started {
		return
	}
	l.started = true
	l.s.r.running.Add(1)
	if l.udp != nil {
		go l.datagrams()
	} else {
		go l.accept()
	}
}

// end closes the listener for good.
func (l *listener) end() {
	l.shut()
	l.close()
}

// close stops taking connections. Those over TCP that are there go on; flows over UDP end.
func (l *listener) close() {
	l.once.Do(func() {
		close(l.done)
		l.socket.close()
		l.s.r.files.give(1)
		l.endFlows()
	})
}

// accept takes TCP connections. It never dials: each connection has a goroutine that does.
func (l *listener) accept() {
	r := l.s.r
	defer r.running.Done()
	var pause backoff
	for {
		client, err := l.tcp.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EINVAL): // closed, or about to be
			return
		case err != nil:
			if isShortage(err) {
				r.short(NoFiles)
			}
			if !pause.wait(l.done) {
				return
			}
			continue
		}
		pause = 0
		// At the limit the next connections wait in the kernel's queue.
		for !r.files.take(2) {
			r.short(TooManyConnections)
			if !pause.wait(l.done) {
				reset(client)
				return
			}
		}
		pause = 0
		r.stats.streams.Add(1)
		r.running.Add(1)
		go l.s.serve(client)
	}
}
