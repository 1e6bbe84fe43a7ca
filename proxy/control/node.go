package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/svcproxy/svcproxy/proxy/health"
)

// parseNode reads the query of an order about the node: drain=1 or drain=0, and why.
func parseNode(q url.Values) (drain bool, why string, err error) {
	for key, values := range q {
		if key != "drain" && key != "why" || len(values) != 1 {
			return false, "", fmt.Errorf("parameter %.40q is not known, or given %d times", key, len(values))
		}
	}
	switch q.Get("drain") {
	case "1":
		drain = true
	case "0":
	default:
		return false, "", fmt.Errorf("drain %.40q is not 0 or 1", q.Get("drain"))
	}
	why = q.Get("why")
	return drain, why, health.Author{Why: why}.Check()
}

// node answers POST /v1/node.
func (s *Server) node(w http.ResponseWriter, r *http.Request) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	var drain bool
	var why string
	if err == nil {
		drain, why, err = parseNode(q)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	by, err := author(r, why)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if err := s.DrainNode(drain, by); err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	answer(w, struct{}{})
}

// DrainNode has load balancers in front of the node leave it, or come back.
func (c Client) DrainNode(ctx context.Context, drain bool, why string) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	q := url.Values{"drain": {"0"}, "why": {why}}
	if drain {
		q.Set("drain", "1")
	}
	err := c.ask(ctx, http.MethodPost, "/v1/node?"+q.Encode(), func(r io.Reader) error {
		return json.NewDecoder(r).Decode(new(struct{}))
	})
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return refused.exit()
	}
	return err
}
