package health

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

func TestSelector(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"10.2.0.1", ""}, {"10.2.0.1:8080", ""}, {"fd00::1", ""}, {"[fd00::1]:8080", ""},
		{"web/10.2.0.1", ""}, {"web/[fd00::1]:80", ""}, {"prod/web/10.2.0.1:80", ""}, {"default/web/10.2.0.1", "web/10.2.0.1"},
		{"10.2.0.0/16", ""}, {"10.2.3.4/16", "10.2.0.0/16"}, {"fd00::/8", ""}, {"node=worker-1", ""},
		{"::ffff:10.2.0.1", "10.2.0.1"},
		{"", "error"}, {"web", "error"}, {"web/", "error"}, {"/10.2.0.1", "error"}, {"a/b/c/10.2.0.1", "error"}, {"node=", "error"},
		{"10.2.0.1:0", "error"}, {"10.2.0.1:65536", "error"}, {"fe80::1%eth0", "error"}, {"::ffff:10.2.0.0/112", "error"},
		{"we b/10.2.0.1", "error"}, {"web/10.2.0.0/16", "error"}, {"node=\x1b[2J", "error"},
	} {
		s, err := ParseSelector(c.text)
		switch {
		case c.want == "error":
			if err == nil {
				t.Errorf("%q is read as %s", c.text, s)
			}
		case err != nil:
			t.Errorf("%q: %v", c.text, err)
		default:
			want := c.want
			if want == "" {
				want = c.text
			}
			if s.String() != want {
				t.Errorf("%q is written as %q, want %q", c.text, s, want)
			}
		}
	}
}

// A service of Kubernetes keeps its namespace.
func TestSelectorIn(t *testing.T) {
	for source, want := range map[string]string{sources.APIServer: "default/web 10.2.0.0/16", "file": "web 10.2.0.0/16"} {
		table := sources.Table{Services: sources.ServicesOf(sources.Service{Namespace: "default", Name: "web", Origin: sources.Origin{Source: source}})}
		s, err := ParseSelector("10.2.0.0/16")
		if s.Service = "default/web"; err != nil || s.In(table) != want {
			t.Errorf("%s: %q, want %q", source, s.In(table), want)
		}
	}
}

func order(t *testing.T, target string, verb Verb) Override {
	s, err := ParseSelector(target)
	if err != nil {
		t.Fatal(err)
	}
	return Override{Selector: s, Verb: verb, Made: epoch, By: "root", Why: "kernel upgrade"}
}

// TestAdd: an order replaces one of its kind for the same endpoints, and leaves others.
func TestAdd(t *testing.T) {
	var o Overrides
	heavy := order(t, "10.2.0.1", Reweigh)
	heavy.Weight.N = 3
	for _, x := range []Override{order(t, "10.2.0.1", Drain), heavy, order(t, "10.2.0.1", Disable), order(t, "web/10.2.0.1", Drain)} {
		before := append(Overrides{}, o...)
		next, err := o.Add(x)
		if err != nil {
			t.Fatal(err)
		}
		if len(before)+len(o) > 0 && !reflect.DeepEqual(before, append(Overrides{}, o...)) {
			t.Fatal("Add changed its receiver")
		}
		o = next
	}
	var got []string
	for i := range o {
		got = append(got, o[i].Selector.String()+" "+o[i].String())
	}
	want := []string{`10.2.0.1 disabled by root: "kernel upgrade"`, `10.2.0.1 weight 3 by root: "kernel upgrade"`, `web/10.2.0.1 drained by root: "kernel upgrade"`}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	whole := heavy
	whole.Weight = Weight{100, true}
	if o, err := o.Add(whole); err != nil || len(o) != 2 {
		t.Errorf("100%% leaves %v, %v", o, err)
	}
	for name, bad := range map[string]func(*Override){
		"verb": func(o *Override) { o.Verb = "reboot" }, "why": func(o *Override) { o.Why = "\x1b[31m" },
		"long": func(o *Override) { o.Why = strings.Repeat("x", 201) }, "until": func(o *Override) { o.Until = o.Made },
		"weight": func(o *Override) { o.Weight.N = 1 },
	} {
		x := order(t, "10.2.0.9", Drain)
		bad(&x)
		if after, err := o.Add(x); err == nil || len(after) != len(o) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPrune: an override ends when its time is over, and after a day without an endpoint.
func TestPrune(t *testing.T) {
	table := readTable(t, "service web check=tcp\nport http TCP 80\nendpoint 10.2.0.1 http=8080 node=n1\n")
	short := order(t, "10.2.0.1", Drain)
	short.Until = epoch.Add(time.Hour)
	var o Overrides
	for _, x := range []Override{short, order(t, "node=n1", Drain), order(t, "10.2.0.1:81", Drain), order(t, "web/10.9.0.0", Drain)} {
		o, _ = o.Add(x)
	}
	o, dropped := o.Prune(table, epoch)
	if len(o) != 4 || dropped != nil {
		t.Fatalf("%v, dropped %v", o, dropped)
	}
	if again, _ := o.Prune(table, epoch.Add(time.Minute)); !same(again, o) {
		t.Error("nothing changed, and the overrides are others")
	}
	for _, x := range o {
		if got, want := x.Unmatched.IsZero(), x.Node != "" || x.Addr.String() == "10.2.0.1" && x.Port == 0; got != want {
			t.Errorf("%s: matched is %v", x.Selector, got)
		}
	}
	o, dropped = o.Prune(table, epoch.Add(time.Hour))
	if len(o) != 3 || len(dropped) != 1 || dropped[0].Because != "its time is over" {
		t.Fatalf("%v, dropped %v", o, dropped)
	}
	table.Services.At(0).Endpoints[0].Ports[0].Port = 81
	o, _ = o.Prune(table, epoch.Add(2*time.Hour))
	o, dropped = o.Prune(table, epoch.Add(24*time.Hour))
	if len(o) != 2 || len(dropped) != 1 || dropped[0].Addr.String() != "10.9.0.0" {
		t.Errorf("%v, dropped %v", o, dropped)
	}
}

// TestExpiryInOverlay: it does not wait for Prune.
func TestExpiryInOverlay(t *testing.T) {
	table := readTable(t, "service web check=tcp\nport http TCP 80\nendpoint 10.2.0.1 http=8080\n")
	x := order(t, "10.2.0.1", Drain)
	x.Until = epoch.Add(time.Minute)
	k := Known{Overrides: Overrides{x}}
	if got := Overlay(table, k, epoch); got.Services.At(0).Endpoints[0].Weight != 0 || !got.Wake.Equal(x.Until) {
		t.Errorf("%+v", got)
	}
	if got := Overlay(table, k, x.Until); !got.Services.Same(table.Services) || !got.Wake.IsZero() {
		t.Errorf("%+v", got)
	}
}

// TestStrongest: of several orders for an endpoint disable counts before drain, and the latest weight.
func TestStrongest(t *testing.T) {
	table := readTable(t, "service web check=tcp\nport http TCP 80\nendpoint 10.2.0.1 http=8080 node=n1\n")
	s := table.Services.At(0)
	var o Overrides
	early, late := order(t, "web/10.2.0.1", Reweigh), order(t, "10.2.0.0/24", Reweigh)
	early.Weight.N, late.Weight.N, late.Made = 2, 5, epoch.Add(time.Second)
	for _, x := range []Override{early, late, order(t, "node=n1", Disable), order(t, "10.2.0.1", Drain)} {
		o, _ = o.Add(x)
	}
	m := newMatcher(o, epoch)
	out, weight := m.find(s, &s.Endpoints[0], 8080)
	if out == nil || out.Verb != Disable || weight == nil || weight.Weight.N != 5 {
		t.Errorf("%v, %v", out, weight)
	}
}

func TestOverridesJSON(t *testing.T) {
	o := Overrides{}
	heavy := order(t, "prod/web/10.2.0.1:80", Reweigh)
	heavy.Weight, heavy.Until, heavy.UID = Weight{50, true}, epoch.Add(time.Hour), 1000
	inService := order(t, "node=n1", Disable)
	inService.Service = "default/web"
	for _, x := range []Override{heavy, inService, order(t, "10.2.0.0/16", Drain)} {
		var err error
		if o, err = o.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	o[0].Unmatched = epoch
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":1,"overrides":[` +
		`{"target":"10.2.0.0/16","verb":"drain","since":"2023-11-14T22:13:20Z","by":"root","uid":0,"why":"kernel upgrade","unmatchedSince":"2023-11-14T22:13:20Z"},` +
		`{"target":"node=n1","service":"default/web","verb":"disable","since":"2023-11-14T22:13:20Z","by":"root","uid":0,"why":"kernel upgrade"},` +
		`{"target":"10.2.0.1:80","service":"prod/web","verb":"weight","weight":"50%","since":"2023-11-14T22:13:20Z","until":"2023-11-14T23:13:20Z","by":"root","uid":1000,"why":"kernel upgrade"}]}`
	if string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}
	back, err := ParseOverrides(data)
	if err != nil || !reflect.DeepEqual(back, o) {
		t.Errorf("%v, %v, want %v", back, err, o)
	}
}

// TestParseOverrides: what is not well formed is left out, and the rest stays.
func TestParseOverrides(t *testing.T) {
	good := `{"target":"10.2.0.1","verb":"drain","since":"2023-11-14T22:13:20Z","uid":0}`
	for name, c := range map[string]struct {
		text string
		n    int
		err  string
	}{
		"none":          {`{"version":1}`, 0, ""},
		"one":           {`{"version":1,"overrides":[` + good + `]}`, 1, ""},
		"twice":         {`{"version":1,"overrides":[` + good + `,` + good + `]}`, 1, ""},
		"newer":         {`{"version":2,"overrides":[` + good + `]}`, 0, "unknown schema version 2"},
		"no version":    {`{"overrides":[` + good + `]}`, 0, "unknown schema version 0"},
		"cut off":       {`{"version":1,"overrides":[` + good, 0, "unexpected end"},
		"unknown field": {`{"version":1,"overrides":[{"target":"10.2.0.2","verb":"drain","onlyOn":"monday"},` + good + `]}`, 1, `unknown field "onlyOn"`},
		"null":          {`{"version":1,"overrides":[null,` + good + `]}`, 1, "no target"},
		"no verb":       {`{"version":1,"overrides":[{"target":"10.2.0.2"},` + good + `]}`, 1, `number 1: verb ""`},
		"weight":        {`{"version":1,"overrides":[{"target":"10.2.0.2","verb":"weight","weight":"-1"}]}`, 0, `weight "-1"`},
		"drain, weight": {`{"version":1,"overrides":[{"target":"10.2.0.2","verb":"drain","weight":"1"}]}`, 0, "drain has no weight"},
		"two services":  {`{"version":1,"overrides":[{"target":"a/10.2.0.2","service":"b","verb":"drain"}]}`, 0, "does not go with"},
	} {
		got, err := ParseOverrides([]byte(c.text))
		if len(got) != c.n || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := ParseOverrides([]byte(`{"version":7}`)); !errors.Is(err, errVersion) {
		t.Error(err)
	}
}

// FuzzParseOverrides: what is read is well formed, and is read again as it was written.
func FuzzParseOverrides(f *testing.F) {
	f.Add([]byte(`{"version":1,"overrides":[{"target":"web/10.2.0.1:80","verb":"drain","since":"2023-11-14T22:13:20Z","until":"2023-11-14T22:13:21.5Z","by":"root","uid":0,"why":"x"}]}`))
	f.Add([]byte(`{"version":1,"overrides":[{"target":"node=a","service":"b/c","verb":"weight","weight":"50%"},{"target":"fd00::/8","verb":"disable"},null]}`))
	table := sources.Table{Services: sources.ServicesOf(sources.Service{Name: "web", Namespace: "default"})}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, _ := ParseOverrides(data)
		for i := range o {
			if err := o[i].check(); err != nil {
				t.Fatal(err)
			}
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		back, err := ParseOverrides(text)
		if err != nil || len(back) != len(o) {
			t.Fatalf("%s: %v", text, err)
		}
		if again, _ := json.Marshal(back); string(again) != string(text) {
			t.Fatalf("%s, then %s", text, again)
		}
		o.Prune(table, epoch)
		Overlay(table, Known{Overrides: o}, epoch)
	})
}

// FuzzParseSelector: what is read is read again as it was written.
func FuzzParseSelector(f *testing.F) {
	for _, s := range []string{"10.2.0.1", "a/b/[fd00::1]:80", "node=x", "10.0.0.0/8", "::ffff:1.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSelector(text)
		if err != nil {
			return
		}
		if back, err := ParseSelector(s.String()); err != nil || back != s {
			t.Fatalf("%q is written as %q, which is %+v, %v", text, s, back, err)
		}
	})
}
