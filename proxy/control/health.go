package control

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

// Probe is what the daemon sends to a port of an endpoint. `svcproxy health probe` sends it too. Its form may differ
// between versions, so Probes says which one wrote it.
type Probe struct {
	Service string         `json:"service"`
	Port    string         `json:"port"` // its name
	Address netip.AddrPort `json:"address"`
	Weight  uint32         `json:"weight"` // by its source
	// Sent goes To an address and port, which may be others than Address. Its zero is an endpoint that is not checked.
	Sent sources.Probe  `json:"probe"`
	To   netip.AddrPort `json:"to"`
	// Send and Expect are Sent's: they need not be text.
	Send   []byte `json:"send,omitempty"`
	Expect []byte `json:"expect,omitempty"`
}

// Probe returns what is sent.
func (p *Probe) Probe() sources.Probe {
	sent := p.Sent
	sent.Send, sent.Expect = string(p.Send), string(p.Expect)
	return sent
}

// Probes are those of the ports of one endpoint.
type Probes struct {
	Version string  `json:"version"` // of the daemon
	Probes  []Probe `json:"probes"`
}

// ProbesOf returns the probes for the ports that a selector is for. The table has the node's defaults.
func ProbesOf(t sources.Table, s health.Selector) []Probe {
	list := []Probe{}
	explain := health.NewExplainer(health.Known{}, time.Time{})
	for i := range t.Services.Len() {
		of := t.Services.At(i)
		if of.FullName() != s.Service {
			continue
		}
		places := s.Places(sources.Table{Services: sources.ServicesOf(*of)})
		for _, x := range explain.Explain(of) {
			if !slices.Contains(places, health.Place{Service: of.DisplayName(), Protocol: x.Protocol, Addr: x.Addr}) {
				continue
			}
			p := Probe{Service: of.DisplayName(), Port: x.Port, Address: x.Addr, Weight: x.Source}
			if x.Target != (health.Key{}) {
				p.Sent, p.To = x.Target.Probe.Value(), x.Target.Addr
				p.Send, p.Expect = []byte(p.Sent.Send), []byte(p.Sent.Expect)
				p.Sent.Send, p.Sent.Expect = "", ""
			}
			list = append(list, p)
		}
	}
	return list
}

// health answers GET /v1/health.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	var names []string
	if list := r.URL.Query().Get("service"); list != "" {
		names = strings.Split(list, ",")
	}
	answer(w, s.Health(r.Context(), names))
}

// probes answers GET /v1/probes.
func (s *Server) probes(w http.ResponseWriter, r *http.Request) {
	of, err := ParseTarget(r.URL.Query().Get("target"), "")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer(w, s.Probes(of))
}

// Health asks for the status with the named services alone, or all of them without names, and in these with the
// endpoints alone that health checks or orders decide on: see status.Reader.Checks.
func (c Client) Health(ctx context.Context, names []string) (status.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var st status.Status
	err := c.ask(ctx, http.MethodGet, "/v1/health?"+url.Values{"service": {strings.Join(names, ",")}}.Encode(),
		func(r io.Reader) error {
			return json.NewDecoder(r).Decode(&st)
		})
	return st, err
}

// Probes asks how an endpoint is probed.
func (c Client) Probes(ctx context.Context, s health.Selector) (p Probes, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	err = c.ask(ctx, http.MethodGet, "/v1/probes?"+url.Values{"target": {s.String()}}.Encode(), func(r io.Reader) error {
		return json.NewDecoder(r).Decode(&p)
	})
	return p, err
}

// Owner returns the user and group of the daemon.
func (c Client) Owner(ctx context.Context) (*syscall.Ucred, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer conn.Close()
	return peer(conn)
}
