package web

import (
	"encoding/json"
	"net/http"
	"time"
)

// Health answers what load balancers and kubelets ask of the whole node, as kube-proxy v1.34 does: path,
// codes, fields and their meaning.
type Health struct {
	// Healthy says whether the proxy does its work. It is called by many goroutines, as the others are.
	Healthy func() bool
	// Synced is when the last sync that succeeded ended; zero before the first.
	Synced func() time.Time
	// Eligible says whether this node may be given traffic: it is not on its way out. Nil: always.
	Eligible func() bool
	// Stale names the refused files of which content of an earlier run is served; nil: there are none.
	Stale func() []string
	// Unserved names the refused files of which nothing is served; nil: there are none.
	Unserved func() []string
	// Degraded says in short lines what is not as it should be although the proxy works; nil: nothing.
	Degraded func() []string
	// Answered, if set, is told each answer: "/healthz" or "/livez", and its code.
	Answered func(path string, code int)
}

// familyHealth is the part of one address family.
type familyHealth struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// health is the answer.
type health struct {
	LastUpdated  time.Time `json:"lastUpdated"`
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible *bool     `json:"nodeEligible,omitempty"` // /healthz only
	Healthy      bool      `json:"healthy"`                // the proxy, whatever becomes of the node
	// Stale is ours: kube-proxy has no last good content to go on with.
	Stale []string `json:"stale,omitempty"`
	// Unserved is ours, too.
	Unserved []string `json:"unserved,omitempty"`
	// Degraded is ours, too: a failing sync, refused files, services without backends. The code is 200 with it.
	Degraded []string `json:"degraded,omitempty"`
	// Status is that of the families, absent before the first sync. One sync programs both.
	Status map[string]familyHealth `json:"status,omitempty"`
}

// Handler serves /healthz, 503 while the proxy is not healthy or the node is not eligible, and /livez,
// which leaves the node out: a proxy on a node that is going away need not be restarted.
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
		// Old clients take a time in the past for a proxy that hangs, while nothing had to be done since.
		now.LastUpdated = now.CurrentTime
	}
	if h.Answered != nil {
		h.Answered(path, code)
	}
	body, _ := json.Marshal(now) // times, bools and a map of them always have JSON
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	w.Write(body) // an error is the client's going away
}
