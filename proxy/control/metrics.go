package control

import (
	"context"
	"io"
	"net/http"
)

// metrics answers as the metrics listener does, which may be turned off.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) { s.Metrics.ServeHTTP(w, r) }

// Metrics asks for the metrics, in the text format of Prometheus.
func (c Client) Metrics(ctx context.Context) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	err = c.ask(ctx, http.MethodGet, "/v1/metrics", func(r io.Reader) error {
		b, err := io.ReadAll(r)
		text = string(b)
		return err
	})
	return text, err
}
