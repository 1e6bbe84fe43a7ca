package file

import (
	"reflect"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
)

// TestNames: DNS names among the backends, and what looks like one.
func TestNames(t *testing.T) {
	const head = "[services.web]\nvips = [\"192.0.2.1\"]\nkeepClientAddress = false\n"
	decode := func(text string) (sources.Table, string) {
		table, _, problems := Decode("s.toml", []byte(head+text))
		var all []string
		for _, p := range problems {
			all = append(all, p.Message)
		}
		return table, strings.Join(all, "\n")
	}
	for text, want := range map[string]string{
		`port = 80
backends = ["App.Example.net.:8080", "10.0.0.1", { name = "b.example", weight = 3, backup = true }, { srv = "_web._tcp.example" }]`: "",
		`ports = [80, 81]
backends = ["a.example", { name = "b.example", ports = { "80" = 8080 } }]`: "",
		`port = 80
backends = ["10.0.0.300"]`: "10.0.0.300",
		`port = 80
backends = ["10.0.0.300:80"]`: "10.0.0.300:80",
		`port = 80
backends = ["app"]`: "app",
		`port = 80
backends = ["a..example:80"]`: "a..example",
		`port = 80
backends = ["a.example:0"]`: "must be 1 to 65535",
		`port = 80
backends = ["a.example:80:90"]`: "must be 1 to 65535",
		`port = 80
backends = [{ name = "10.0.0.1" }]`: "not a whole DNS name",
		`port = 80
backends = [{ name = "a.example", address = "10.0.0.1" }]`: "several of address, name and srv",
		`port = 80
backends = [{ srv = "a.example", port = 80 }]`: "SRV records have the ports",
		`ports = [80, 81]
backends = [{ srv = "a.example" }]`: "give it one port",
		`ports = [80, 81]
backends = ["a.example:8080"]`: "the service's only port",
		`port = 80
backends = ["a.example", "A.example:80"]`: "a.example is given twice",
		`port = 80
backends = [{ weight = 1 }]`: "has no address",
	} {
		table, problems := decode(text)
		if want != "" {
			if !strings.Contains(problems, want) {
				t.Errorf("%s: %q, want %q", text, problems, want)
			}
			continue
		}
		if problems != "" {
			t.Errorf("%s: %s", text, problems)
			continue
		}
		for _, words := range []Words{EdgeWords, KubernetesWords} {
			s := *table.Services.At(0)
			again, _, refused := Decode("s.toml", []byte(Encode(&s, words)))
			if len(refused) > 0 {
				t.Errorf("%s\nwritten as %s: %v", text, Encode(&s, words), refused)
				continue
			}
			if back := again.Services.At(0); !reflect.DeepEqual(back.Names, s.Names) || !reflect.DeepEqual(back.Endpoints, s.Endpoints) {
				t.Errorf("%s\nwritten as %s: %+v, want %+v", text, Encode(&s, words), back.Names, s.Names)
			}
		}
	}
}

// TestLostNames: half a file that lacks a name is waited for as one that lacks an endpoint.
func TestLostNames(t *testing.T) {
	service := func(backends string) sources.Table {
		table, _, _ := Decode("s.toml", []byte("[services.web]\nvips = [\"192.0.2.1\"]\nport = 80\nbackends = ["+backends+"]\n"))
		return table
	}
	both, one, none := service(`"a.example", "b.example"`), service(`"a.example"`), service("")
	loss := func(before, now sources.Table) loss { return lossOf(before, now, sources.Compare(before, now)) }
	if l := loss(both, one); l.parts != 1 || l.services != 0 {
		t.Errorf("a name less: %+v", l)
	}
	if l := loss(one, none); l.services != 1 {
		t.Errorf("no backend any more: %+v", l)
	}
	if l := loss(one, both); !l.nothing() {
		t.Errorf("a name more: %+v", l)
	}
}
