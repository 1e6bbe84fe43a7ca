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

// Table is what one source of the daemon has delivered last, for a plan: the
// table, and what the source says of the node. Its form is that of one version.
type Table struct {
	Version   string            `json:"version"`
	Delivered bool              `json:"delivered"` // else there are no services to be known
	Services  []sources.Service `json:"services"`
	Node      *TableNode        `json:"node,omitempty"`
}

// TableNode is what an API server says of the node.
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

// Table asks what a source has delivered.
func (c Client) Table(ctx context.Context, source string) (t Table, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	err = c.ask(ctx, http.MethodGet, "/v1/table?"+url.Values{"source": {source}}.Encode(), func(r io.Reader) error { return json.NewDecoder(r).Decode(&t) })
	return t, err
}
