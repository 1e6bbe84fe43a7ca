package status

import (
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// A service with limits shows what it refused. Who was let in since a meter was full was not refused.
func TestRefused(t *testing.T) {
	s := &sources.Service{Name: "web", Clients: &sources.Clients{}}
	c := kernel.Counters{Refused: map[string]kernel.Refusals{kernel.HashOf("", "web"): {
		kernel.Denied: 12, kernel.OverRate: 3, kernel.OverConnections: 5, kernel.MeterFull: 4, kernel.Unmetered: 7}}}
	st := Status{Services: []Service{{Name: "web", Refused: refusedOf(s, c)}}}
	var b strings.Builder
	if err := Print(&b, st, View{Format: Table, Service: "web"}); err != nil {
		t.Fatal(err)
	}
	want := "first packets refused: 12 by allow or deny, 3 over the rate, 5 over the number of connections, " +
		"4 without room in the meter\n"
	if !strings.Contains(b.String(), want) {
		t.Errorf("no %s in\n%s", want, b.String())
	}
	if refusedOf(s, kernel.Counters{}) != nil || refusedOf(&sources.Service{Name: "web"}, c) != nil {
		t.Error("refusals without counters, or without limits")
	}
}
