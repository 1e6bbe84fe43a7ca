package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/svcproxy/svcproxy/proxy/explain"
)

// explain answers GET /v1/explain.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	q, err := explain.ParseQuestion(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	result, err := s.Explain(r.Context(), q)
	switch {
	case errors.Is(err, explain.ErrSource):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	default:
		answer(w, result)
	}
}

// Explain asks what becomes of a packet: for a user who may not read the kernel.
func (c Client) Explain(ctx context.Context, q explain.Question) (explain.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var one explain.Answer
	var all explain.Services
	into, result := any(&one), func() explain.Result { return one }
	if q.Service != "" {
		into, result = &all, func() explain.Result { return all }
	}
	err := c.ask(ctx, http.MethodGet, "/v1/explain?"+q.Values().Encode(), func(r io.Reader) error {
		return json.NewDecoder(r).Decode(into)
	})
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return nil, refused.exit()
	}
	return result(), err
}
