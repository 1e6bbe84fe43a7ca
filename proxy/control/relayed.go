package control

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// relayed answers with the virtual and real servers that this process relays to.
func (s *Server) relayed(w http.ResponseWriter, _ *http.Request) { answer(w, s.Relayed()) }

// Relayed returns the virtual and real servers that the daemon relays to in mode userspace, as the text of a
// kernel.State.
func (c Client) Relayed(ctx context.Context) (state string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	err = c.ask(ctx, http.MethodGet, "/v1/relayed", func(r io.Reader) error { return json.NewDecoder(r).Decode(&state) })
	return state, err
}
