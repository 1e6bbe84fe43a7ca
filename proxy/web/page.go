package web

import (
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"strings"
)

// page is the status page: one file of each kind, no build step, nothing of anybody else's.
//
//go:embed page/page.html page/page.css page/page.js
var page embed.FS

// pagePolicy lets the page load its own files and ask this server, and nothing else: what a service's name
// or an error's text might bring with it is not run.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// servePage adds the page's files to a mux.
func servePage(mux *http.ServeMux) {
	for path, file := range map[string]struct{ name, kind string }{
		"/{$}":      {"page.html", "text/html; charset=utf-8"},
		"/page.css": {"page.css", "text/css; charset=utf-8"},
		"/page.js":  {"page.js", "text/javascript; charset=utf-8"},
	} {
		body, err := page.ReadFile("page/" + file.name)
		if err != nil {
			panic(err) // impossible: the compiler embedded the file
		}
		serveFile(mux, path, file.kind, body)
	}
	serveFile(mux, "/lists.js", "text/javascript; charset=utf-8", lists())
}

// serveFile adds one file of the page.
func serveFile(mux *http.ServeMux, path, kind string, body []byte) {
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256(body))
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("ETag", tag)
		h.Set("Cache-Control", "no-cache") // after an upgrade the old script would not know the new status
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		write(w, r, kind, body)
	})
}

// write answers a body, compressed if the client takes that.
func write(w http.ResponseWriter, r *http.Request, kind string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Write(body) // an error is the client's going away, here and below
		return
	}
	h.Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	z.Write(body)
	z.Close()
}
