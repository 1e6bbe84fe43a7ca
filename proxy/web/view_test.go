package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

// many is a status of n services with ten endpoints each. The second drains, the third has no backends.
func many(n int) status.Status {
	s := status.Status{Problems: []string{}, Warnings: []string{}, Sources: []status.Source{}, Faults: []status.Fault{}, Conflicts: []status.Conflict{}, Drains: []status.Draining{}}
	for i := range n {
		addr := netip.AddrFrom4([4]byte{10, 96, byte(i / 250), byte(i % 250)})
		svc := status.Service{
			Name: fmt.Sprintf("default/service-%04d", i), Type: "ClusterIP", State: status.Serving, Origin: fmt.Sprintf("/etc/svcproxy/services.toml:%d", i),
			Virtuals: []status.Virtual{{Address: netip.AddrPortFrom(addr, 80), Protocol: "tcp", Kind: status.KindClusterIP, Scheduler: "rr", Backends: 10}},
			Backends: status.Backends{Serving: 10}, Active: status.Count(i),
		}
		for e := range 10 {
			svc.Endpoints = append(svc.Endpoints, status.Endpoint{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(2 + e), byte(i / 250), byte(i % 250)}), 8080), Protocol: "tcp", State: status.EndpointServing})
		}
		s.Services = append(s.Services, svc)
	}
	if n > 2 {
		s.Services[1].Backends.Draining = 1
		s.Services[2].State = status.NoBackends
	}
	s.Totals.Services = n
	return s
}

func siteOf(s status.Status, ring *events.Ring) http.Handler {
	return Site{Metrics: http.NotFoundHandler(), Status: func(context.Context) status.Status { return s }, Events: ring}.Handler()
}

func TestViewCutsAStatus(t *testing.T) {
	all := many(120)
	for query, want := range map[string]struct {
		matching, offset, services int
		first                      string
	}{
		"":                         {120, 0, 50, "0002"}, // trouble first
		"sort=name":                {120, 0, 50, "0000"},
		"sort=-name":               {120, 0, 50, "0119"},
		"sort=-active":             {120, 0, 50, "0000"},
		"sort=address":             {120, 0, 50, "0000"},
		"sort=state":               {120, 0, 50, "0002"},
		"sort=backends":            {120, 0, 50, "0000"},
		"limit=7&offset=14":        {120, 14, 7, "0014"},
		"offset=100":               {120, 100, 20, "0100"},
		"offset=500":               {120, 100, 20, "0100"}, // after services were removed
		"limit=100000":             {120, 0, 120, "0002"},
		"limit=-1&offset=x":        {120, 0, 50, "0002"},
		"search=SERVICE-011":       {10, 0, 10, "0110"},
		"search=10.96.0.7:80":      {1, 0, 1, "0007"},
		"search=10.4.0.9:8080":     {1, 0, 1, "0009"},
		"search=services.toml:119": {1, 0, 1, "0119"},
		"search=nothing&offset=50": {0, 0, 0, ""},
		"show=trouble":             {1, 0, 1, "0002"},
		"show=draining":            {1, 0, 1, "0001"},
		"sort=active":              {120, 0, 50, "0119"},
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		a := viewOf(q).of(all)
		first := ""
		if len(a.Services) > 0 {
			first = strings.TrimPrefix(a.Services[0].Name, "default/service-")
		}
		if a.Matching != want.matching || a.Offset != want.offset || len(a.Services) != want.services || first != want.first {
			t.Errorf("%s: %d match, from %d on %d, first %s; want %+v", query, a.Matching, a.Offset, len(a.Services), first, want)
		}
		if slices.ContainsFunc(a.Services, func(s status.Service) bool { return len(s.Endpoints) > 0 }) {
			t.Errorf("%s: services with endpoints", query)
		}
	}
	if len(all.Services[0].Endpoints) != 10 {
		t.Error("the status was changed")
	}
}

func TestViewFindsMarks(t *testing.T) {
	var s status.Status
	for _, mark := range []uint32{7, 80} {
		v := status.Virtual{Mark: mark, Protocol: "fwmark", Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{0, 0, 0, byte(mark)}), 0)}
		s.Services = append(s.Services, status.Service{Name: fmt.Sprint("marked-", mark), Virtuals: []status.Virtual{v}})
	}
	for search, want := range map[string]int{"fwmark 7": 1, "FWMark": 2, "fwmark 80": 1, "fwmark 9": 0, "0.0.0.7": 0} {
		if got := (view{search: strings.ToLower(search), limit: 10}).of(s).Matching; got != want {
			t.Errorf("%s: %d services, want %d", search, got, want)
		}
	}
}

// The answer has the details of one service, whether it is on the page or not.
func TestViewHasADetail(t *testing.T) {
	q, _ := url.ParseQuery("service=default/service-0099&show=trouble")
	a := viewOf(q).of(many(120))
	if a.Detail == nil || a.Detail.Name != "default/service-0099" || len(a.Detail.Endpoints) != 10 || len(a.Services) != 1 {
		t.Errorf("detail %+v beside %d services", a.Detail, len(a.Services))
	}
}

// The size of the page and its first answer does not grow with the table.
func TestSizeOfThePage(t *testing.T) {
	var ring events.Ring
	for range 2 * events.Size {
		ring.Add(events.Event{Kind: events.Table, Text: "3 changed", Services: []string{"default/web"}})
	}
	all := many(5000)
	h := siteOf(all, &ring)
	total := 0
	for _, path := range []string{"/", "/page.css", "/page.js", "/draw.js", "/lists.js", "/status.json?limit=50"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		t.Logf("%s: %d bytes", path, w.Body.Len())
		if w.Code != 200 {
			t.Errorf("%s: code %d", path, w.Code)
		}
		total += w.Body.Len()
	}
	if total > 100_000 {
		t.Errorf("%d bytes before compression, want at most 100 KB", total)
	}
}

// The page knows every state and every kind of event.
func TestPageKnowsEveryState(t *testing.T) {
	h := siteOf(many(1), &events.Ring{})
	_, lists := ask(h, "/lists.js")
	_, script := ask(h, "/page.js")
	want := func(constant, value, class string) {
		t.Helper()
		line := ""
		for l := range strings.Lines(lists) {
			if strings.HasPrefix(l, "export const "+constant+" = ") {
				line = l
			}
		}
		if !strings.Contains(line, fmt.Sprintf("%q:%q", value, class)) {
			t.Errorf("%s has no %q with the class %q: %s", constant, value, class, line)
		}
		if !strings.Contains(script, constant+"[") && !strings.Contains(script, constant+")") {
			t.Errorf("page.js does not use %s", constant)
		}
	}
	for _, s := range status.States() {
		want("stateLooks", string(s), classes[s.Style()])
	}
	for _, s := range status.EndpointStates() {
		want("endpointLooks", string(s), classes[s.Style()])
	}
	for _, k := range events.Kinds() {
		want("eventLooks", string(k), classes[k.Style()])
	}
	for _, s := range status.HealthStates() {
		want("healthLooks", string(s), classes[s.Style()])
	}
	for _, c := range status.HealthCauses() {
		want("causeLooks", string(c), classes[c.Style()])
	}
	for _, m := range status.HealthModes() {
		want("modeLooks", string(m), classes[m.Style()])
	}
	want("sourceNames", sources.Files, "services files")
}

func TestStatusBringsNewEvents(t *testing.T) {
	var ring events.Ring
	h := siteOf(many(1), &ring)
	ring.Add(events.Event{Text: "one"}, events.Event{Text: "two"})
	want := func(query string, seqs ...uint64) {
		t.Helper()
		_, body := ask(h, "/status.json"+query)
		var a struct{ Events []events.Event }
		if err := json.Unmarshal([]byte(body), &a); err != nil {
			t.Fatal(err)
		}
		var got []uint64
		for _, e := range a.Events {
			got = append(got, e.Seq)
		}
		if !slices.Equal(got, seqs) {
			t.Errorf("%q brings events %v, want %v", query, got, seqs)
		}
	}
	want("", 1, 2)
	want("?after=1", 2)
	want("?after=2")
}

// The page may load only its own files, and only GET is allowed.
func TestPageIsGuarded(t *testing.T) {
	h := siteOf(many(1), &events.Ring{})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	again := httptest.NewRequest("GET", "/", nil)
	again.Header.Set("If-None-Match", w.Header().Get("ETag"))
	w = httptest.NewRecorder()
	if h.ServeHTTP(w, again); w.Code != 304 || w.Body.Len() != 0 {
		t.Errorf("the same page again: %d with %d bytes", w.Code, w.Body.Len())
	}
	for _, path := range []string{"/", "/status.json", "/page.js"} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest("POST", path, nil)); w.Code != 405 {
			t.Errorf("POST %s: %d", path, w.Code)
		}
	}
	if code, _ := ask(h, "/page/"); code != 404 {
		t.Errorf("a listing: %d", code)
	}
}

func FuzzView(f *testing.F) {
	f.Add("search=a&offset=3&limit=2&show=trouble&sort=active&service=x&after=9")
	f.Add("limit=9223372036854775807&offset=9223372036854775807")
	all := many(9)
	f.Fuzz(func(t *testing.T, query string) {
		q, _ := url.ParseQuery(query)
		a := viewOf(q).of(all)
		if a.Offset < 0 || a.Offset > a.Matching || len(a.Services) > a.Matching-a.Offset {
			t.Errorf("%d services from %d of %d", len(a.Services), a.Offset, a.Matching)
		}
	})
}
