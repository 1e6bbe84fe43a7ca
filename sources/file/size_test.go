package file_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// list returns n addresses in quotes.
func list(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"10.%d.%d.%d"`, 20+i/62500, i%62500/250, i%250+1)
	}
	return strings.Join(all, ", ")
}

// each returns n services, each with a VIP of its own and more keys.
func each(n int, more string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "[services.s%d]\nclusterIP = \"10.%d.%d.%d\"\n%s\n", i, 96+i/62500, i%62500/250, i%250+1, more)
	}
	return b.String()
}

// Small files whose services come to more than is served are refused, by line and sum, before anything is written out.
func TestFilesThatComeToTooMuch(t *testing.T) {
	const ranged = "\nport = \"1000-1999\""
	for name, c := range map[string]struct{ text, want string }{
		"services x ports x endpoints": {
			each(12, `port = "1000-1999"`+"\nbackends = ["+list(1000)+"]"),
			"x.toml:5: s1: 1 VIP x 1000 ports x 1000 endpoints are 1000000 real servers, with those of other services 2000000, " +
				"and at most 1000000 are served: fwmark instead of addresses and ports serves any number of ports with one virtual server",
		},
		"one service": {
			each(1, `ports = ["1-1000", 2000]`+"\nbackends = ["+list(1000)+"]"),
			"x.toml:1: s0: 1 VIP x 1001 ports x 1000 endpoints are 1001000 real servers, and at most 1000000 are served: fwmark",
		},
		"services x ranges": {each(3000, ranged), "x.toml:1001: s250: 1 VIP x 1000 ports are 1000 virtual servers, with"},
		"one document of inline tables": {
			"services = {" + inline(300, `port = "1000-1999"`) + "}",
			"1 VIP x 1000 ports are 1000 virtual servers, with those of other services 251000, and at most 250000",
		},
		"a range many times": {each(1, "ports = ["+strings.Repeat(`"1-1000",`, 100_000)+"]"),
			"x.toml:1: s0: 100000000 ports, and a service has at most 10000: fwmark instead of"},
		"VIPs x ports": {"[services.a]\nexternalIPs = [" + list(251) + "]" + ranged, "x.toml:1: a: 251 VIPs x 1000 ports are 251000 virtual servers"},
		"VIPs x endpoints": {"[services.a]\nexternalIPs = [" + list(1001) + "]\nport = 80\nbackends = [" + list(1000) + "]",
			"1001 VIPs x 1 port x 1000 endpoints are 1001000 real servers, and at most 1000000 are served: serve fewer, or some of them on other nodes"},
		"endpoints with ports": {"[services.a]\nclusterIP = \"10.96.0.1\"\nport = \"1-1000\"\nbackends = [" +
			strings.Repeat(`{ address = "10.1.1.1", ports = { 1 = 5 } },`, 1001) + "]", "1 VIP x 1000 ports x 1001 endpoints are"},
		"source ranges": {"[services.a]\nvips = [" + list(50) + "]\nkeepClientAddress = false\nloadBalancerSourceRanges = [" +
			strings.Repeat(`"10.0.0.0/8",`, 21) + "]" + ranged,
			"50 VIPs x 1000 ports x 21 ranges are 1050000 rules for source ranges, and at most 1000000 are served: give fewer and larger"},
		"probes": {each(1, ranged+"\nhealthCheck = \"tcp\"\nbackends = ["+list(251)+"]"),
			"251 endpoints x 1000 ports are 251000 probes, and at most 250000 are served: a healthCheck with a port probes each endpoint once"},
		"a shared check": {"[healthChecks.c]\ntype = \"ping\"\n" + each(252, "port = 80\nhealthCheck = \"@c\"\nbackends = ["+list(1000)+"]"),
			"x.toml:1253: s250: 1000 endpoints are 1000 probes, with those of other services 251000"},
		"node ports": {each(1, "ports = [{ port = 80, nodePort = 30080 }, { port = 81, nodePort = 30081 }]\nbackends = ["+list(100_001)+"]"),
			"has 100001 endpoints, and a service has at most 100000"},
		"services that serve nothing": {headless(3000), "x.toml:1001: h250: 1 VIP x 1000 ports are"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, problems := file.Decode("x.toml", []byte(c.text))
			runtime.ReadMemStats(&after)
			if len(problems) == 0 || !strings.Contains(problems[len(problems)-1].Error(), c.want) {
				t.Fatalf("%.400v\nwant %s", problems, c.want)
			}
			if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 180 {
				t.Errorf("%d bytes of text took %d MB", len(c.text), mb)
			}
		})
	}
}

// inline returns n services as each does, for one inline table.
func inline(n int, more string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("s%d = { clusterIP = \"10.96.%d.%d\", %s }", i, i/250, i%250+1, more)
	}
	return strings.Join(all, ", ")
}

// headless returns n services that serve nothing, with a thousand ports each.
func headless(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "[services.h%d]\ntype = \"Headless\"\n\nports = [\"1-1000\"]\n", i)
	}
	return b.String()
}

// The largest file that is served is accepted, and each change of it is judged by all of it.
func TestLargestFile(t *testing.T) {
	text := each(10, `port = "1000-1999"`+"\nbackends = ["+list(100)+"]")
	table, _, problems := file.Decode("x.toml", []byte(text))
	if problems = append(problems, sources.Validate(table)...); len(problems) > 0 || table.Services.Len() != 10 {
		t.Fatalf("%d services: %v", table.Services.Len(), problems)
	}
	if _, _, problems = file.Decode("x.toml", []byte(text+"[services.s10]\nclusterIP = \"10.96.0.11\"\nport = 80\nbackends = [\"10.1.1.1\"]\n")); len(problems) != 1 {
		t.Errorf("one more: %v", problems)
	}
}
