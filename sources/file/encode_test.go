package file

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/sources"
)

// Every service of the scenario files, here and in testdata/rules, is read back as it was.
func TestEncode(t *testing.T) {
	services := 0
	for _, data := range scenarioFiles(t) {
		services += encodeAll(t, data)
	}
	rules, err := filepath.Glob("../../testdata/rules/*.txtar")
	if err != nil || len(rules) == 0 {
		t.Fatal("no scenarios of rules", err)
	}
	for _, path := range rules {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Files {
			if strings.HasSuffix(f.Name, ".toml") {
				services += encodeAll(t, f.Data)
			}
		}
	}
	if services < 200 {
		t.Errorf("only %d services", services)
	}
}

// FuzzEncode: what Decode accepts, Encode writes so that Decode reads the same.
func FuzzEncode(f *testing.F) {
	for _, data := range scenarioFiles(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { encodeAll(t, data) })
}

// encodeAll encodes each service of a file, and returns how many there are.
func encodeAll(t *testing.T, data []byte) int {
	t.Helper()
	table, _, _ := Decode("f.toml", data)
	for _, s := range table.Services.All() {
		for _, words := range []Words{EdgeWords, KubernetesWords} {
			text := Encode(s, words)
			again, _, problems := Decode("f.toml", []byte(text))
			if len(problems) > 0 || again.Services.Len() != 1 {
				t.Fatalf("%v\n%s\nof\n%s", problems, text, data)
			}
			if got, want := placeless(*again.Services.At(0)), placeless(*s); !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v, want %+v\n%s", got, want, text)
			}
		}
	}
	return table.Services.Len()
}

// placeless is a service without its place in a file. A list without elements is the same as none.
func placeless(s sources.Service) sources.Service {
	s.Origin, s.KeepsClients = sources.Origin{}, false // EdgeWords writes keepClientAddress = true for all cluster IPs
	s.ClusterIPs, s.ExternalIPs, s.Endpoints = unlessEmpty(s.ClusterIPs), unlessEmpty(s.ExternalIPs), slices.Clone(s.Endpoints)
	for i := range s.Endpoints {
		s.Endpoints[i].Ports = unlessEmpty(s.Endpoints[i].Ports)
	}
	return s
}

func unlessEmpty[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}
