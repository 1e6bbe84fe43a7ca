package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// forHosts refuses requests whose Host header is not one of the node's names. With DNS rebinding another
// site's name can lead to this listener, so that its page in a browser on the node reads the answers. The
// browser sends that name as Host. Addresses are allowed, because no page of another site comes from them, and
// so are requests without Host, because browsers always send one.
func forHosts(allowed func(name string) bool, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := hostName(r.Host); name != "" && !isAddress(name) && !allowed(name) {
			http.Error(w, fmt.Sprintf("this listener is not %.80q: ask for an address or the node's name, or add this name to "+
				"metricsAllowedHosts", name),
				http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Hosts returns a function that reports whether a name is localhost, one of the node's own, or in a list. The
// list holds names, domains with everything below them (".example.com"), or "*".
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

// hostName is the name in a Host header in lower case, without its port and the dot at its end.
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
