package web

import (
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"strings"
)

// page holds the status page: few files, without a build step or foreign code.
//
//go:embed page/page.html page/page.css page/page.js page/draw.js
var page embed.FS

// pagePolicy lets the page load its own files and ask this server, and nothing else. A script in a service's
// name or an error's text does not run.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// servePage adds the files of the page to a mux.
func servePage(mux *http.ServeMux) {
	for path, file := range map[string]struct{ name, kind string }{
		"/{$}":      {"page.html", "text/html; charset=utf-8"},
		"/page.css": {"page.css", "text/css; charset=utf-8"},
		"/page.js":  {"page.js", "text/javascript; charset=utf-8"},
		"/draw.js":  {"draw.js", "text/javascript; charset=utf-8"},
	} {
		body, err := page.ReadFile("page/" + file.name)
		if err != nil {
			panic(err) // impossible: the compiler embedded the file
		}
		serveFile(mux, path, file.kind, body)
	}
	serveFile(mux, "/lists.js", "text/javascript; charset=utf-8", lists())
}

// serveFile adds one file.
func serveFile(mux *http.ServeMux, path, kind string, body []byte) {
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256(body))
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("ETag", tag)
		h.Set("Cache-Control", "no-cache") // an old script may not understand the status of a newer svcproxy
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		write(w, r, kind, body)
	})
}

// write sends a body, compressed if the client accepts that.
func write(w http.ResponseWriter, r *http.Request, kind string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Write(body) // an error means that the client left, here and below
		return
	}
	h.Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	z.Write(body)
	z.Close()
}
