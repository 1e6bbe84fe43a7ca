package health

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// readTable reads the tables of scenarios, a service with its ports and endpoints in lines:
//
//	service web check=tcp onDown=cut minHealthy=50% slowStart=16s
//	port http TCP 80
//	endpoint 10.2.0.1 http=8080 weight=2 backup
func readTable(t testing.TB, text string) sources.Table {
	var table sources.Table
	vip := netip.MustParseAddr("10.96.0.0")
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) == 0 || w[0] == "#" {
			continue
		}
		switch w[0] {
		case "service":
			vip = vip.Next()
			s := sources.Service{
				Namespace: sources.DefaultNamespace, Name: w[1], Type: sources.ClusterIP, ClusterIPs: []netip.Addr{vip}, Scheduler: "rr",
			}
			for _, option := range w[2:] {
				if file, ok := strings.CutPrefix(option, "file="); ok {
					s.Origin = sources.Origin{Source: "files", File: file}
				} else {
					serviceOption(t, &s, option)
				}
			}
			table.Services = table.Services.Append(s)
			continue
		}
		s := table.Services.At(table.Services.Len() - 1)
		switch w[0] {
		case "port":
			proto, err := sources.ParseProtocol(w[2])
			if err != nil {
				t.Fatal(err)
			}
			s.Ports = append(s.Ports, sources.Port{Name: w[1], Protocol: proto, Port: number(t, w[3])})
		case "endpoint":
			e := sources.Endpoint{Addr: netip.MustParseAddr(w[1]), Weight: 1, Ready: true, Serving: true}
			for _, option := range w[2:] {
				endpointOption(t, s, &e, option)
			}
			s.Endpoints = append(s.Endpoints, e)
		default:
			t.Fatalf("no line %q", line)
		}
	}
	return table
}

func number(t testing.TB, text string) uint16 {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(n)
}

// standard is the pace of health.md's defaults.
func standard() sources.HealthCheck {
	return sources.HealthCheck{
		Interval: 2 * time.Second, FastInterval: 500 * time.Millisecond, DownInterval: 2 * time.Second, Jitter: 0.1, Fall: 3, Rise: 2,
		Initial: sources.InitialKernel, OnDown: sources.DownDrain, OnAllDown: sources.AllDownOpen,
	}
}

func serviceOption(t testing.TB, s *sources.Service, option string) {
	key, value, _ := strings.Cut(option, "=")
	if s.HealthCheck == nil {
		c := standard()
		s.HealthCheck = &c
	}
	c := s.HealthCheck
	switch key {
	case "check":
		kind, path, _ := strings.Cut(value, ":")
		c.Probe.Type, c.Probe.Path = sources.CheckType(kind), path
	case "checkPort":
		c.Probe.PortName = value
	case "distribution":
		s.TrafficDistribution = sources.TrafficDistribution(value)
	case "scheduler":
		s.Scheduler = value
	case "onDown":
		c.OnDown = sources.OnDown(value)
	case "onAllDown":
		c.OnAllDown = sources.OnAllDown(value)
	case "passive":
		c.Passive = true
	case "initial":
		c.Initial = sources.Initial(value)
	case "fall":
		c.Fall = int(number(t, value))
	case "rise":
		c.Rise = int(number(t, value))
	case "minHealthy":
		digits, percent := strings.CutSuffix(value, "%")
		c.MinHealthy, c.MinHealthyPercent = int(number(t, digits)), percent
	case "slowStart", "interval", "timeout":
		d, err := time.ParseDuration(value)
		if err != nil {
			t.Fatal(err)
		}
		*map[string]*time.Duration{"slowStart": &c.SlowStart, "interval": &c.Interval, "timeout": &c.Probe.Timeout}[key] = d
	default:
		t.Fatalf("no option %q", option)
	}
}

func endpointOption(t testing.TB, s *sources.Service, e *sources.Endpoint, option string) {
	key, value, _ := strings.Cut(option, "=")
	switch key {
	case "weight":
		e.Weight = uint32(number(t, value))
	case "backup":
		e.Backup = true
	case "unchecked":
		e.Unchecked = true
	case "notready":
		e.Ready = false
	case "node":
		e.NodeName = value
	default:
		found := false
		for _, p := range s.Ports {
			if p.Name == key {
				e.Ports = append(e.Ports, sources.EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: number(t, value)})
				found = true
			}
		}
		if !found {
			t.Fatalf("no option %q", option)
		}
	}
}
