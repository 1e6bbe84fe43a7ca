package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/explain"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/proxy/web"
	"github.com/svcproxy/svcproxy/sources/file"
)

// Limits of the server. Clients may read everything, but not exhaust the daemon.
const (
	maxConns     = 256
	maxFollowers = 16
	maxReloads   = 16               // at the same time
	maxHeader    = 32 << 10         // bytes; fits the names of a screen of services
	readLimit    = 5 * time.Second  // for a request to arrive, and for answers at shutdown
	writeLimit   = 30 * time.Second // for a client to read an answer, or one line that it follows
	idleLimit    = 10 * time.Second // between two requests; svcproxy's own commands make one a connection
	reloadLimit  = 2 * time.Minute  // for reading all files again and a sync
)

// Server answers on the control socket. Fill in the exported fields and call Serve
// once.
type Server struct {
	Status func(context.Context) status.Status
	// Detail is the status with the endpoints of the named services only, and with
	// the traffic of these.
	Detail func(context.Context, []string) status.Status
	// Reload reads all files again and returns when everything valid in them is
	// programmed. An error is about the reload, not about the files.
	Reload func(context.Context) (Reloaded, error)
	// Table is the last table of a source.
	Table func(source string) Table
	// Orders keeps the operator's orders. Places lists what one is for, and Applied waits until the kernel has those
	// given before the call, as far as they are about some endpoints.
	Orders  Orders
	Places  func(health.Selector) []health.Place
	Applied func(context.Context, []health.Place) error
	// DrainNode drains the node, or ends its drain.
	DrainNode func(drain bool, by health.Author) error
	// Health is the status with what health checks and orders say of the named services, or of all without names.
	Health func(context.Context, []string) status.Status
	// Relayed is the virtual and real servers of this process as the text of a kernel.State; nil is none.
	Relayed func() string
	// Kernel reads the kernel: the text of a kernel.Observed; nil if this daemon cannot.
	Kernel func(context.Context) (string, error)
	// Metrics serves the metrics; nil if there are none.
	Metrics http.Handler
	// Probes says how an endpoint is probed.
	Probes func(health.Selector) Probes
	// Explain says what becomes of a packet; nil if this daemon cannot.
	Explain func(context.Context, explain.Question) (explain.Result, error)
	// Tables are the tables of services that programs set; nil if this daemon keeps none. TableChanged is told of each
	// change, and returns what became of it if the client waits. MembersSetTables says whether others than root may
	// make one.
	Tables           *file.Store
	TableChanged     func(context.Context, TableChange) *Reloaded
	MembersSetTables func() bool
	Events           *events.Ring
	Log              *slog.Logger

	followers, reloads atomic.Int32
	bodies             chan struct{} // a place for each table that arrives
	run                string        // identifies the numbers of events: another one for each Server unless they count on
}

// Serve answers until ctx ends. Then it ends the streams of followers, finishes
// other answers and closes the socket.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:                      s.handler(),
		DisableGeneralOptionsHandler: true,
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ConnContext:                  withPeer,
		ReadHeaderTimeout:            readLimit, // a ReadTimeout would end the streams of followers
		IdleTimeout:                  idleLimit,
		MaxHeaderBytes:               maxHeader,
		ErrorLog:                     slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	limit := web.Limit{Max: maxConns, Client: client}
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

func (s *Server) handler() http.Handler {
	s.run, s.bodies = rand.Text(), make(chan struct{}, maxBodies)
	if s.Events != nil {
		s.run = cmp.Or(s.Events.Series(), s.run)
	}
	large := web.NewMaking()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", bounded(large, s.status))
	mux.HandleFunc("GET /v1/events", s.events)
	mux.HandleFunc("GET /v1/table", bounded(large, s.table))
	mux.HandleFunc("POST /v1/reload", s.reload)
	if s.Relayed != nil {
		mux.HandleFunc("GET /v1/relayed", s.relayed)
	}
	if s.Explain != nil {
		mux.HandleFunc("GET /v1/explain", s.explain)
	}
	if s.Metrics != nil {
		mux.HandleFunc("GET /v1/metrics", bounded(large, s.metrics))
	}
	if s.Kernel != nil {
		mux.HandleFunc("GET /v1/kernel", s.kernel)
	}
	if s.DrainNode != nil {
		mux.HandleFunc("POST /v1/node", s.node)
	}
	if s.Orders != nil {
		mux.HandleFunc("GET /v1/overrides", s.overrides)
		mux.HandleFunc("POST /v1/order", s.order)
		mux.HandleFunc("GET /v1/health", bounded(large, s.health))
		mux.HandleFunc("GET /v1/probes", s.probes)
	}
	if s.Tables != nil {
		mux.HandleFunc("GET /v1/tables", s.listTables)
		mux.HandleFunc("GET /v1/tables/{name}", s.getTable)
		mux.HandleFunc("PUT /v1/tables/{name}", s.putTable)
		mux.HandleFunc("DELETE /v1/tables/{name}", s.removeTable)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 && (r.Method != http.MethodPut || !strings.HasPrefix(r.URL.Path, "/v1/tables/")) {
			w.Header().Set("Connection", "close") // the body is not read
			http.Error(w, "only a PUT has a body here", http.StatusRequestEntityTooLarge)
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
		http.Error(w, "too many reloads are in progress", http.StatusServiceUnavailable)
		return
	}
	run := func(ctx context.Context) (Reloaded, error) {
		defer s.reloads.Add(-1)
		ctx, cancel := context.WithTimeout(ctx, reloadLimit)
		defer cancel()
		return s.Reload(ctx)
	}
	if r.URL.Query().Get("wait") != "1" {
		go func() { // the client does not wait for its end
			if _, err := run(context.WithoutCancel(r.Context())); err != nil {
				s.Log.Error("reload failed", "err", err)
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

// answer sends JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit)) // an error shows at the write
	json.NewEncoder(w).Encode(v)                                               // an error means that the client left
}
