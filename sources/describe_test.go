package sources

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDescribe(t *testing.T) {
	web := func(change func(*Service)) Service {
		s := Service{
			Namespace: "default", Name: "web", Scheduler: "rr", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.8")},
			Ports:  []Port{{Name: "http", Protocol: TCP, Port: 80, TargetPort: 8080}},
			Origin: Origin{Source: "file", File: "services.toml", Line: 3},
		}
		for _, a := range []string{"10.2.1.10", "10.2.1.11"} {
			s.Endpoints = append(s.Endpoints, Endpoint{Addr: netip.MustParseAddr(a), Ports: []EndpointPort{{"http", TCP, 8080}}, Weight: 1})
		}
		if change != nil {
			change(&s)
		}
		return s
	}
	for _, c := range []struct {
		change func(*Service)
		want   string
	}{
		{func(s *Service) { s.Endpoints[0].Weight = 0 }, "endpoint 10.2.1.10:8080 weight 1 -> 0"},
		{func(s *Service) { s.Endpoints = s.Endpoints[:1] }, "endpoint 10.2.1.11:8080 removed"},
		{func(s *Service) { s.Endpoints[1].Addr = netip.MustParseAddr("10.2.1.9"); slices.Reverse(s.Endpoints) }, "endpoint 10.2.1.9:8080 added; endpoint 10.2.1.11:8080 removed"},
		{func(s *Service) { s.Endpoints[1].Ports[0].Port = 81 }, "endpoint 10.2.1.11:81 ports -http 8080/tcp +http 81/tcp"},
		{func(s *Service) { s.Scheduler = "" }, `scheduler rr -> ""`},
		{func(s *Service) { s.SchedulerFlags = FlagsGiven | FlagFallback | FlagPort }, "schedulerFlags default -> fallback and port"},
		{func(s *Service) { s.Scheduler, s.Weighted = "", true }, `scheduler rr -> ""`},
		{func(s *Service) { s.FWMark, s.AffinityPrefix4 = 7, 24 }, "fwmark 0 -> 7; sessionAffinityPrefix4 0 -> 24"},
		{func(s *Service) { s.ClusterIPs[0] = netip.MustParseAddr("10.96.0.9") }, "clusterIPs -10.96.0.8 +10.96.0.9"},
		{func(s *Service) { s.Ports[0].NodePort = 30080 }, "ports -http 80/tcp:8080 +http 80/tcp:8080 (node port 30080)"},
		{func(s *Service) { d := time.Minute; s.DrainTimeout = &d }, "drainTimeout default -> 1m0s"},
		{func(s *Service) { s.HealthCheck = new(HealthCheck) }, "healthCheck added"},
		{func(s *Service) {
			s.HealthCheck = &HealthCheck{Fall: 2, Probe: Probe{Headers: "Authorization: secret"}}
		}, "healthCheck added"},
		{func(s *Service) { s.Origin.Line++ }, ""},
		{func(s *Service) {
			for i := range 9 {
				s.Endpoints = append(s.Endpoints, Endpoint{Addr: netip.AddrFrom4([4]byte{10, 2, 2, byte(i)})})
			}
		}, "endpoint 10.2.2.0 added; endpoint 10.2.2.1 added; endpoint 10.2.2.2 added; endpoint 10.2.2.3 added; endpoint 10.2.2.4 added; and 4 more"},
	} {
		before, now := Table{Services: ServicesOf(web(nil))}, Table{Services: ServicesOf(web(c.change))}
		got := ""
		for _, d := range Describe(before, now, Compare(before, now), 10) {
			if d.Service != "web" || d.Verb != "changed" || d.Origin != now.Services.At(0).Origin {
				t.Errorf("%+v", d)
			}
			got += d.What
		}
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	checked := func(c HealthCheck) Service { return web(func(s *Service) { s.HealthCheck = &c }) }
	a, b := checked(HealthCheck{Fall: 2}), checked(HealthCheck{Fall: 3, Probe: Probe{Headers: "Authorization: secret"}})
	if got, want := differences(&a, &b, Change{Service: true}).String(), "healthCheck.probe changed; healthCheck.fall 2 -> 3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	one, none := Table{Services: ServicesOf(web(nil))}, Table{}
	for _, c := range []struct {
		before, now Table
		want        Described
	}{
		{none, one, Described{"web", "added", "1 address, 1 port, 2 endpoints", one.Services.At(0).Origin}},
		{one, none, Described{"web", "removed", "1 address, 1 port, 2 endpoints", one.Services.At(0).Origin}},
	} {
		if got := Describe(c.before, c.now, Compare(c.before, c.now), 10); len(got) != 1 || got[0] != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
	if got := Describe(none, one, Compare(none, one), 0); len(got) != 0 {
		t.Errorf("none is wanted: %v", got)
	}
}

// Each field of a service and of an endpoint has words for its change.
func TestDescribeEveryField(t *testing.T) {
	for typ, at := range map[reflect.Type]func(*Service) reflect.Value{
		reflect.TypeFor[Service]():  func(s *Service) reflect.Value { return reflect.ValueOf(s).Elem() },
		reflect.TypeFor[Endpoint](): func(s *Service) reflect.Value { return reflect.ValueOf(&s.Endpoints[0]).Elem() },
	} {
		for i := range typ.NumField() {
			a, b := full(), full()
			name := typ.Field(i).Name
			if undescribed[name] {
				continue
			}
			fill(at(&b).Field(i))
			text := differences(&a, &b, Change{Service: true, Endpoints: true}).String()
			if !strings.Contains(text, keyName(name)) || strings.Contains(text, "0x") {
				t.Errorf("%s: %q", name, text)
			}
		}
	}
}
