package control

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/svcproxy/svcproxy/sources"
)

// Table is the last table that one source of the daemon delivered, and what that
// source says about the node. `svcproxy plan` reads it. Its form may differ between
// versions, so Version says which one wrote it.
type Table struct {
	Version   string            `json:"version"`
	Delivered bool              `json:"delivered"` // false: the source has delivered no table yet
	Services  []sources.Service `json:"services"`
	Node      *TableNode        `json:"node,omitempty"`
}

// TableNode is what an API server says about the node.
type TableNode struct {
	Zone      string         `json:"zone"`
	Addresses []netip.Addr   `json:"addresses"`
	PodCIDRs  []netip.Prefix `json:"podCIDRs"`
}

func (s *Server) table(w http.ResponseWriter, r *http.Request) {
	if s.Table == nil {
		http.NotFound(w, r)
		return
	}
	answer(w, s.Table(r.URL.Query().Get("source")))
}

// Table asks for the last table of a source.
func (c Client) Table(ctx context.Context, source string) (t Table, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	err = c.ask(ctx, http.MethodGet, "/v1/table?"+url.Values{"source": {source}}.Encode(), func(r io.Reader) error {
		return json.NewDecoder(r).Decode(&t)
	})
	return t, err
}
