package control

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/proxy/conns"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// Limits. Those who may connect are trusted to look, not to use up the daemon.
const (
	maxConns     = 64
	maxFollowers = 16
	maxReloads   = 16               // asked for and not over
	maxHeader    = 32 << 10         // bytes: the names of a screen of services; no request has a body
	readLimit    = 5 * time.Second  // for a request to arrive, and for answers at the end
	writeLimit   = 30 * time.Second // for an answer, or one line to a follower, to be taken
	idleLimit    = 10 * time.Second // between two requests; our own commands make one a connection
	reloadLimit  = 2 * time.Minute  // for reading all files again and a sync
)

// Server answers on the control socket. Fill in its fields and call Serve once.
type Server struct {
	Status func(context.Context) status.Status
	// Detail is a status with the endpoints of the named services alone, and with
	// their traffic.
	Detail func(context.Context, []string) status.Status
	// Reload reads all files again and returns once what was good of them is
	// served. An error is of none of the files.
	Reload func(context.Context) (Reloaded, error)
	// Table is what a source delivered last.
	Table  func(source string) Table
	Events *events.Ring
	Log    *slog.Logger

	followers, reloads atomic.Int32
}

// Serve answers until ctx ends; then followers are let go, other answers are
// finished, and the socket is closed.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:                      s.handler(),
		DisableGeneralOptionsHandler: true,
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout:            readLimit, // one for all of a request would end those who follow
		IdleTimeout:                  idleLimit,
		MaxHeaderBytes:               maxHeader,
		ErrorLog:                     slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	limit := conns.Limit{Max: maxConns, Client: client}
	over := make(chan struct{})
	go func() {
		defer close(over)
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
		defer cancel()
		if server.Shutdown(stop) != nil {
			server.Close()
		}
	}()
	if err := server.Serve(limit.Listener(l)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-over
	return nil
}

// client tells who has connected: root, for whom there is always room, or another user.
func client(c net.Conn) (string, bool) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return "", false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return "", false
	}
	var peer *syscall.Ucred
	if raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}) != nil || err != nil {
		return "", false
	}
	return strconv.Itoa(int(peer.Uid)), peer.Uid == 0
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", s.status)
	mux.HandleFunc("GET /v1/events", s.events)
	mux.HandleFunc("GET /v1/table", s.table)
	mux.HandleFunc("POST /v1/reload", s.reload)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close") // and it is not read
			http.Error(w, "no request here has a body", http.StatusRequestEntityTooLarge)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	switch query := r.URL.Query(); {
	case query.Has("detail"):
		answer(w, s.Detail(r.Context(), strings.Split(query.Get("detail"), ",")))
	case query.Get("endpoints") == "none":
		answer(w, s.Status(r.Context()).WithoutEndpoints())
	default:
		answer(w, s.Status(r.Context()))
	}
}

func (s *Server) reload(w http.ResponseWriter, r *http.Request) {
	if s.reloads.Add(1) > maxReloads {
		s.reloads.Add(-1)
		http.Error(w, "too many reloads are under way already", http.StatusServiceUnavailable)
		return
	}
	run := func(ctx context.Context) (Reloaded, error) {
		defer s.reloads.Add(-1)
		ctx, cancel := context.WithTimeout(ctx, reloadLimit)
		defer cancel()
		return s.Reload(ctx)
	}
	if r.URL.Query().Get("wait") != "1" {
		go func() { // the asker does not wait for its end
			if _, err := run(context.WithoutCancel(r.Context())); err != nil {
				s.Log.Error("reload", "err", err)
			}
		}()
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result, err := run(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, result)
}

// events streams events, one a line, and with follow goes on as they come.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.ParseUint("0"+r.URL.Query().Get("after"), 10, 64)
	if err != nil {
		http.Error(w, "after: want the number of an event", http.StatusBadRequest)
		return
	}
	follow := r.URL.Query().Get("follow") == "1"
	if follow {
		defer s.followers.Add(-1)
		if s.followers.Add(1) > maxFollowers {
			http.Error(w, "too many follow the events already", http.StatusServiceUnavailable)
			return
		}
	}
	w.Header().Set("Content-Type", "application/jsonl")
	to, lines := http.NewResponseController(w), json.NewEncoder(w)
	for {
		list, lost, more := s.Events.After(after)
		if lost > 0 {
			list = append([]events.Event{events.Forgotten(lost)}, list...)
		}
		to.SetWriteDeadline(time.Now().Add(writeLimit)) // an error shows in the write
		for _, e := range list {
			if lines.Encode(e) != nil {
				return // the reader went away, or does not read
			}
			after = max(after, e.Seq)
		}
		if !follow || to.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-more:
		}
	}
}

// answer writes JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit)) // an error shows in the write
	json.NewEncoder(w).Encode(v)                                               // an error is the client's going away
}
