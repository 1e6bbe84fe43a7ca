package web

import (
	"encoding/json"
	"net/http"
	"time"
)

// Health answers /healthz and /livez for load balancers and kubelets. Paths, codes and fields are those of
// kube-proxy v1.34.
type Health struct {
	// Healthy reports whether the proxy works. It is called by many goroutines, and so are the others.
	Healthy func() bool
	// Synced is when the last successful sync ended; zero before the first.
	Synced func() time.Time
	// Eligible reports whether this node should get traffic; false while it is being deleted. Nil: always.
	Eligible func() bool
	// Stale names the refused files that are served as they were in an earlier run; nil: none.
	Stale func() []string
	// Unserved names the refused files of which nothing is served; nil: none.
	Unserved func() []string
	// Degraded lists what is wrong although the proxy works, in short lines; nil: nothing. Health checks that tell
	// nothing are one of these and no 503: the node goes on serving by the last states. The same cause, such as
	// a switch, often blinds all nodes at once, and load balancers would then take out all of them.
	Degraded func() []string
	// Answered, if set, is called with the path and code of each answer.
	Answered func(path string, code int)
}

// familyHealth is the health of one address family.
type familyHealth struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// health is the JSON of an answer.
type health struct {
	LastUpdated  time.Time `json:"lastUpdated"`
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible *bool     `json:"nodeEligible,omitempty"` // /healthz only
	Healthy      bool      `json:"healthy"`                // of the proxy, regardless of the node
	// Stale, Unserved and Degraded are not in kube-proxy, which keeps no last good files. The code is 200
	// with all of them.
	Stale    []string `json:"stale,omitempty"`
	Unserved []string `json:"unserved,omitempty"`
	Degraded []string `json:"degraded,omitempty"`
	// Status is absent before the first sync. One sync programs both families.
	Status map[string]familyHealth `json:"status,omitempty"`
}

// Handler serves /healthz and /livez. /healthz is 503 while the proxy is not healthy or the node not eligible.
// /livez ignores the node: a proxy on a node that is being deleted needs no restart.
func (h Health) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		eligible := h.Eligible == nil || h.Eligible()
		now := h.now()
		now.NodeEligible = &eligible
		h.write(w, "/healthz", now, now.Healthy && eligible)
	})
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		now := h.now()
		h.write(w, "/livez", now, now.Healthy)
	})
	return mux
}

func (h Health) now() health {
	now := health{LastUpdated: h.Synced(), CurrentTime: time.Now(), Healthy: h.Healthy()}
	if h.Stale != nil {
		now.Stale = h.Stale()
	}
	if h.Unserved != nil {
		now.Unserved = h.Unserved()
	}
	if h.Degraded != nil {
		now.Degraded = h.Degraded()
	}
	if !now.LastUpdated.IsZero() {
		family := familyHealth{now.LastUpdated, now.Healthy}
		now.Status = map[string]familyHealth{"IPv4": family, "IPv6": family}
	}
	return now
}

func (h Health) write(w http.ResponseWriter, path string, now health, good bool) {
	code := http.StatusServiceUnavailable
	if good {
		code = http.StatusOK
		// Old clients take an old time for a proxy that hangs, although there was nothing to sync since.
		now.LastUpdated = now.CurrentTime
	}
	if h.Answered != nil {
		h.Answered(path, code)
	}
	body, _ := json.Marshal(now) // cannot fail: times, bools, strings and a map
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	w.Write(body) // an error means that the client left
}
