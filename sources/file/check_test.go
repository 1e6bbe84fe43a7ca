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
	for _, last := range []string{"", "[healthChecks]\n"} { // by sections, and as a whole
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
	if before.sections == nil || now.sections == nil {
		t.Error("was not read by sections")
	}
	if len(d.Changes) != 1 || d.Changes[0].Name != "c" || !d.Changes[0].Service || now.table.Services.At(2).HealthCheck.Fall != 4 {
		t.Errorf("%+v", d)
	}
}

// TestNamedChecksAndSections: named checks before the first service leave a file readable by sections. A service that
// did not change is taken over, if the named checks did not change either.
func TestNamedChecksAndSections(t *testing.T) {
	const head = "# checks\n[healthChecks.web]\ntype = \"tcp\"\n\n"
	before := sameAsWhole(t, reading{}, []byte(head+threeChecks))
	a := &before.table.Services.At(0).Ports[0]
	for _, c := range []struct {
		text     string
		sections bool
		taken    bool
	}{
		{head + threeChecks + "endpoints = [ \"10.2.0.1\" ]\n", true, true},
		{head + threeChecks + "endpoints = [ \"10.2.0\" ]\n", false, true}, // refused, at the right line
		{"# more\n" + head + threeChecks, true, false},
		{threeChecks, true, false},
		{threeChecks + head, false, false},
		{head + "[healthChecks.web]\n" + threeChecks, false, false},
		{head + "a = 1\n" + threeChecks, false, false},
		{head + "x = \"\"\"\n" + threeChecks + "\"\"\"\n", false, false},
	} {
		now := sameAsWhole(t, before, []byte(c.text))
		if (now.sections != nil) != c.sections {
			t.Errorf("by sections is %v:\n%s", now.sections != nil, c.text)
		}
		if now.table.Services.Len() > 0 && (&now.table.Services.At(0).Ports[0] == a) != c.taken {
			t.Errorf("taken over is %v:\n%s", !c.taken, c.text)
		}
	}
}
