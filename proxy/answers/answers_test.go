package answers

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

var (
	endpoint = netip.MustParseAddrPort("10.2.1.10:8080")
	start    = time.Date(2026, 11, 28, 7, 0, 0, 0, time.UTC)
)

// look is made so many seconds after the start. Clients are given by a number: its hundreds are the address, the rest is
// the port.
func look(seconds int, all bool, waiting []int, answered ...int) Look {
	of := func(clients []int) (list []Connection) {
		for _, n := range clients {
			client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(n / 100)}), uint16(1024+n%100))
			list = append(list, Connection{client, netip.MustParseAddrPort("10.96.0.1:80")})
		}
		return list
	}
	s := Seen{Waiting: of(waiting), Answered: of(answered)}
	return Look{start.Add(time.Duration(seconds) * time.Second), all, map[netip.AddrPort]Seen{endpoint: s}}
}

func TestJudge(t *testing.T) {
	one, crowd := []int{1, 2, 3}, []int{101, 201, 301, 401}
	for name, c := range map[string]struct {
		looks  []Look
		silent bool
	}{
		"none was answered":          {[]Look{look(0, false, one), look(10, true, one), look(26, true, crowd)}, true},
		"too soon":                   {[]Look{look(0, false, one), look(10, true, one), look(20, true, one)}, false},
		"looks that do not tell":     {[]Look{look(0, false, one), look(20, false, one), look(60, false, one)}, false},
		"one slow client":            {[]Look{look(0, false, one[:2]), look(10, true, one[:2]), look(30, true, one[:2])}, false},
		"a busy endpoint":            {[]Look{look(0, false, crowd), look(10, true, crowd, 102), look(30, true, crowd, 103)}, false},
		"connections from before":    {[]Look{look(0, false, one), look(10, true, one, 4, 5), look(30, true, one, 5)}, true},
		"it answers again":           {[]Look{look(0, false, one), look(10, true, one), look(30, true, one), look(40, true, one, 4)}, false},
		"and is silent again":        {[]Look{look(0, false, one), look(10, true, one, 4), look(30, true, one, 5), look(50, true, one, 5)}, true},
		"one is still waiting":       {[]Look{look(0, false, one), look(10, true, one), look(30, true, one), look(40, true, one[:1])}, true},
		"nobody asks any more":       {[]Look{look(0, false, one), look(10, true, one), look(30, true, one), look(40, true, nil)}, false},
		"one client is refused":      {[]Look{look(0, false, one), look(10, true, one, 901), look(30, true, one, 901)}, false},
		"a client that was banned":   {[]Look{look(0, false, one), look(10, true, one, 4, 901), look(30, true, one, 4, 901)}, false},
		"SYNs from false addresses":  {[]Look{look(0, false, crowd), look(10, true, crowd, 901, 902), look(30, true, crowd, 901)}, false},
		"two that were served wait":  {[]Look{look(0, false, crowd), look(10, true, crowd, 102, 202, 901), look(30, true, crowd, 102, 202, 901)}, true},
		"all that were served do":    {[]Look{look(0, false, crowd), look(10, true, crowd, 102, 103), look(30, true, crowd, 102, 103)}, true},
		"others come to be answered": {[]Look{look(0, false, crowd), look(10, true, crowd), look(30, true, crowd), look(40, true, crowd, 901)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var memory Memory
			var silent []Silent
			for _, l := range c.looks {
				silent, memory = Judge(memory, l)
			}
			if c.silent != (len(silent) == 1) {
				t.Errorf("silent: %v", silent)
			}
		})
	}
}

// What is remembered is bounded by the endpoints that may be silent, and by their connections.
func TestMemory(t *testing.T) {
	many := slices.Repeat([]int{1}, Most+1)
	for name, l := range map[string]Look{
		"an endpoint that answers":            look(0, true, nil, 1),
		"one that very many wait for":         look(0, true, many),
		"one with very many that it answered": look(0, true, []int{1, 2, 3}, many...),
	} {
		if _, memory := Judge(nil, l); len(memory) > 0 {
			t.Errorf("%s: remembers %v", name, memory)
		}
	}
}
