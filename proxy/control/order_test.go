package control

import (
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
)

func TestParseOrder(t *testing.T) {
	addr := health.Selector{Addr: netip.MustParseAddr("10.2.0.1")}
	web := addr
	web.Service = "default/web"
	node := health.Selector{Node: "worker-1", Service: "default/web"}
	for query, want := range map[string]Order{
		"verb=drain&target=10.2.0.1":                                      {Verb: Drain, Target: addr},
		"verb=disable&target=web/10.2.0.1&force=1&for=30m&why=a+b":        {Verb: Disable, Target: web, Force: true, For: 30 * time.Minute, Why: "a b"},
		"verb=drain&target=10.2.0.1&service=web":                          {Verb: Drain, Target: web},
		"verb=weight&target=node%3Dworker-1&service=default/web&weight=3": {Verb: Weight, Target: node, Weight: health.Weight{N: 3}},
		"verb=weight&target=10.2.0.1&weight=50%25":                        {Verb: Weight, Target: addr, Weight: health.Weight{N: 50, Percent: true}},
		"verb=undrain&target=10.2.0.1":                                    {Verb: Undrain, Target: addr},
		"verb=unweight&target=10.2.0.1&why=done":                          {Verb: Unweight, Target: addr, Why: "done"},
		"target=10.2.0.1":                                                 {},
		"verb=kill&target=10.2.0.1":                                       {},
		"verb=drain":                                                      {},
		"verb=drain&target=web":                                           {},
		"verb=drain&target=10.2.0.1&target=10.2.0.2":                      {},
		"verb=drain&target=10.2.0.1&endpoint=x":                           {},
		"verb=drain&target=web/10.2.0.1&service=dns":                      {},
		"verb=drain&target=10.2.0.1&service=a/b/c":                        {},
		"verb=drain&target=10.2.0.1&weight=3":                             {},
		"verb=weight&target=10.2.0.1":                                     {},
		"verb=weight&target=10.2.0.1&weight=65536":                        {},
		"verb=weight&target=10.2.0.1&weight=-1":                           {},
		"verb=drain&target=10.2.0.1&for=-1h":                              {},
		"verb=drain&target=10.2.0.1&for=1ms":                              {},
		"verb=drain&target=10.2.0.1&for=1000000h":                         {},
		"verb=drain&target=10.2.0.1&force=yes":                            {},
		"verb=undrain&target=10.2.0.1&force=1":                            {},
		"verb=undrain&target=10.2.0.1&for=1h":                             {},
		"verb=drain&target=10.2.0.1&why=%1b%5b2J":                         {},
		"verb=drain&target=10.2.0.1&why=%ff":                              {},
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		switch got, err := parseOrder(q); {
		case want == Order{} && err == nil:
			t.Errorf("%s is read as %+v", query, got)
		case want != Order{} && (err != nil || got != want):
			t.Errorf("%s: %+v, %v; want %+v", query, got, err, want)
		}
	}
}

// FuzzParseOrder: no query makes it fail otherwise than by an error, and what is read is well formed and is read again
// from its own query.
func FuzzParseOrder(f *testing.F) {
	f.Add("verb=drain&target=web/10.2.0.1:80&for=30m&why=a&force=1")
	f.Add("verb=weight&target=node%3Da&service=x/web&weight=50%25")
	f.Add("verb=undrain&target=fd00::/8")
	f.Add("verb=drain&target=%00&why=%ff&verb=x")
	f.Fuzz(func(t *testing.T, query string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Skip()
		}
		o, err := parseOrder(q)
		if err != nil {
			return
		}
		if again, err := parseOrder(o.values()); err != nil || again != o {
			t.Errorf("%q is %+v, and its query %q is %+v, %v", query, o, o.values().Encode(), again, err)
		}
		if o.Verb.TakesBack() {
			return
		}
		if _, err := (health.Overrides{}).Add(o.override(health.Author{By: "root", Why: o.Why}, time.Unix(1e9, 0))); err != nil {
			t.Errorf("%q is refused later: %v", query, err)
		}
	})
}

func TestParseNode(t *testing.T) {
	for query, good := range map[string]bool{
		"drain=1": true, "drain=0": true, "drain=1&why=kernel+upgrade": true, "drain=1&why=": true,
		"": false, "drain=2": false, "drain=1&drain=0": false, "drain=1&for=1h": false, "drain=1&why=%1b": false, "why=x": false,
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if drain, why, err := parseNode(q); (err == nil) != good || good && (drain != (q.Get("drain") == "1") || why != q.Get("why")) {
			t.Errorf("%s: %t, %q, %v", query, drain, why, err)
		}
	}
}
