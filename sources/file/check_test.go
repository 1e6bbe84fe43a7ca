package file

import (
	"bytes"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
)

const threeChecks = `[services.a]
clusterIP = "10.96.0.1"
ports = [ { port = 80 } ]
healthCheck = "http:/healthz"
[services.b]
clusterIP = "10.96.0.2"
ports = [ { port = 80 } ]
healthCheck = { type = "http", path = "/healthz" }
[services.c]
clusterIP = "10.96.0.3"
ports = [ { port = 80 } ]
healthCheck = "http:/healthz2"
`

// TestEqualChecksAreShared: equal checks of a file are one value in memory, also after another service has changed.
func TestEqualChecksAreShared(t *testing.T) {
	checks := func(r reading) (a, b, c *sources.HealthCheck) {
		s := r.table.Services.Slice()
		return s[0].HealthCheck, s[1].HealthCheck, s[2].HealthCheck
	}
	for _, last := range []string{"", "[healthChecks]\n"} {
		data := []byte(threeChecks + last)
		before := sameAsWhole(t, reading{}, data)
		a, b, c := checks(before)
		if a != b || a == c || *a == *c {
			t.Errorf("%p %p %p", a, b, c)
		}
		data = bytes.Replace(data, []byte(`"http:/healthz2"`), []byte(`"http:/healthz"`), 1)
		if again, b, c := checks(sameAsWhole(t, before, data)); again != a || b != a || c != a {
			t.Errorf("%p before; now %p %p %p", a, again, b, c)
		}
	}
}

// TestNamedCheckChanges: a change of a named check is a change of each service that uses it, and of no other.
func TestNamedCheckChanges(t *testing.T) {
	text := "[healthChecks.web]\ntype = \"tcp\"\nfall = 3\n" + threeChecks
	text = string(bytes.Replace([]byte(text), []byte(`"http:/healthz2"`), []byte(`"@web"`), 1))
	before := sameAsWhole(t, reading{}, []byte(text))
	now := sameAsWhole(t, before, bytes.Replace([]byte(text), []byte("fall = 3"), []byte("fall = 4"), 1))
	d := sources.Compare(before.table, now.table)
	if before.doc == nil || now.doc == nil {
		t.Error("was not read by sections")
	}
	if len(d.Changes) != 1 || d.Changes[0].Name != "c" || !d.Changes[0].Service || now.table.Services.At(2).HealthCheck.Fall != 4 {
		t.Errorf("%+v", d)
	}
}

// TestNamedChecksAndSections: a service that did not change and names no check is taken over, wherever named checks
// stand and whatever becomes of them.
func TestNamedChecksAndSections(t *testing.T) {
	const head = "# checks\n[healthChecks.web]\ntype = \"tcp\"\n\n"
	before := sameAsWhole(t, reading{}, []byte(head+threeChecks))
	a := &before.table.Services.At(0).Ports[0]
	for text, refused := range map[string]bool{
		head + threeChecks + "endpoints = [ \"10.2.0.1\" ]\n": false,
		head + threeChecks + "endpoints = [ \"10.2.0\" ]\n":   true,
		"# more\n" + head + threeChecks:                       false,
		threeChecks:                                           false,
		threeChecks + head:                                    false,
		head + "[healthChecks.web]\n" + threeChecks:           true,
		head + "a = 1\n" + threeChecks:                        true,
	} {
		now := sameAsWhole(t, before, []byte(text))
		if (now.doc == nil) != refused {
			t.Errorf("refused is %v:\n%s", !refused, text)
		}
		if &now.table.Services.At(0).Ports[0] != a {
			t.Errorf("was read again:\n%s", text)
		}
	}
}
