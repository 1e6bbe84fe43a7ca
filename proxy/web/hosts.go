package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// forHosts refuses requests under a name that is not the node's. A page of another site can have its own name
// lead to this listener (DNS rebinding) and then read its answers in a browser on the node; the browser says
// that name as Host. An address is no name: a page cannot have come from it. Clients without Host are none of
// browsers.
func forHosts(allowed func(name string) bool, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := hostName(r.Host); name != "" && !isAddress(name) && !allowed(name) {
			http.Error(w, fmt.Sprintf("this listener is not %.80q: ask for an address or the node's name, or add this name to metricsAllowedHosts", name),
				http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Hosts gives a function that says whether a name is localhost, one of the node's own, or in a list: of names,
// of domains with all that is below them (".example.com"), or "*".
func Hosts(own []string, list func() []string) func(name string) bool {
	return func(name string) bool {
		if name == "localhost" {
			return true
		}
		for _, n := range own {
			if strings.EqualFold(n, name) {
				return true
			}
		}
		for _, n := range list() {
			n = strings.ToLower(n)
			if n == "*" || n == name || strings.HasPrefix(n, ".") && strings.HasSuffix(name, n) {
				return true
			}
		}
		return false
	}
}

// hostName is what a Host header names: in lower case, without port and the dot at its end.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

func isAddress(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}
