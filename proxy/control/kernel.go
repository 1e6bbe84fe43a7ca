package control

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// kernel answers with a reading of the kernel: the text of a kernel.Observed.
func (s *Server) kernel(w http.ResponseWriter, r *http.Request) {
	text, err := s.Kernel(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, text)
}

// Kernel lets the daemon read the kernel, for a user who may not: the text of a kernel.Observed.
func (c Client) Kernel(ctx context.Context) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	err = c.ask(ctx, http.MethodGet, "/v1/kernel", func(r io.Reader) error { return json.NewDecoder(r).Decode(&text) })
	return text, err
}
