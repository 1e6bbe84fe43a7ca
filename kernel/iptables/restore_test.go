package iptables

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// Each file of testdata/restore has the present rules, the wanted rules, and the input of
// iptables-restore that makes the change.
func TestRestoreInput(t *testing.T) {
	files, err := filepath.Glob("testdata/restore/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := make(map[string]string)
			for _, f := range a.Files {
				parts[f.Name] = string(f.Data)
			}
			ops := plan.Once(state(t, parts["want"]).State, state(t, parts["have"])).Ops
			in := write(sections(kernel.IPv4, ops), ops, nil, nil)
			if got := in.text.String(); got != parts["input"] {
				t.Errorf("got\n%swant\n%s", got, parts["input"])
			}
			if other := sections(kernel.IPv6, ops); other != nil {
				t.Errorf("IPv6 has %v to do", other)
			}
		})
	}
}

// The input of one family has no room for the rules of the other.
func TestRestoreInputHasRoomForItsSections(t *testing.T) {
	rules := strings.Repeat("-s 2001:db8::1/128 -j ACCEPT\n", 999) + "-j RETURN"
	ops := []kernel.Op{
		{Verb: kernel.Add, Object: kernel.Chain{Family: kernel.IPv4, Table: "nat", Name: "KUBE-SERVICES", Rules: "-j RETURN"}},
		{Verb: kernel.Add, Object: kernel.Chain{Family: kernel.IPv6, Table: "nat", Name: "KUBE-SERVICES", Rules: rules}},
	}
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		in := write(sections(f, ops), ops, nil, nil)
		if room, n := in.text.Cap(), in.text.Len(); room < n || room > 2*n+100 {
			t.Errorf("%v: room for %d bytes, %d written", f, room, n)
		}
	}
}

func state(t *testing.T, text string) kernel.Observed {
	t.Helper()
	o, err := kernel.ParseObserved(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
