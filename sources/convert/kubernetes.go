package convert

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

// readKubernetes reads Services and EndpointSlices.
func readKubernetes(f File) (Result, error) {
	objects, problems := manifest.Decode(f.Name, f.Data)
	if len(problems) > 0 {
		all := make([]error, len(problems))
		for i, p := range problems {
			all[i] = p
		}
		return Result{}, errors.Join(all...)
	}
	objects.Proxy = f.Proxy
	t, problems := manifest.Table(objects, "")
	r := Result{Notes: otherKinds(f), Words: file.KubernetesWords}
	for _, p := range problems {
		message := p.Message
		if p.Service != "" {
			message = "Service " + p.Service + ": " + message
		}
		danger := Feature
		if strings.HasSuffix(p.Message, manifest.OtherFamily) {
			danger = Irrelevant
		}
		r.Notes = append(r.Notes, Note{Origin: p.Origin, Service: p.Service, Message: message, Danger: danger})
	}
	for _, s := range t.Services.All() {
		again, _, _ := file.Decode("", []byte(file.Encode(s, file.KubernetesWords)))
		if again.Services.Len() == 1 && !reflect.DeepEqual(ports(*s), ports(*again.Services.At(0))) {
			r.Notes = append(r.Notes, Note{
				Origin: s.Origin, Service: s.FullName(), Danger: Feature,
				Message: "some endpoints serve only some of the ports: a services file has all endpoints serve all ports",
			})
		}
		if again.Services.Len() == 1 && !reflect.DeepEqual(hints(*s), hints(*again.Services.At(0))) {
			r.Notes = append(r.Notes, Note{
				Origin: s.Origin, Service: s.FullName(), Danger: Feature,
				Message: "hints of endpoints: a services file has none, so zone and nodeName of the endpoints count",
			})
		}
		r.Services = append(r.Services, *s)
	}
	served, sliced := map[sources.Origin]bool{}, map[string]bool{}
	for _, s := range r.Services {
		served[s.Origin] = true
	}
	for _, e := range objects.Slices {
		sliced[e.Metadata.Namespace+"/"+e.Metadata.Labels.ServiceName] = true
	}
	for i := range objects.Services {
		if s := &objects.Services[i]; !s.Ours(f.Proxy) || served[s.Metadata.Origin] {
			r.Notes = append(r.Notes, ofService(s, f.Proxy, sliced)...)
		}
	}
	for i := range objects.Slices {
		r.Notes = append(r.Notes, ofSlice(&objects.Slices[i], f.Proxy)...)
	}
	return certified(r), nil
}

// ports are the ports of each endpoint.
func ports(s sources.Service) [][]sources.EndpointPort {
	var all [][]sources.EndpointPort
	for _, e := range s.Endpoints {
		p := slices.Clone(e.Ports)
		sources.SortFunc(p, func(a, b sources.EndpointPort) int { return int(a.Port) - int(b.Port) })
		all = append(all, p)
	}
	return all
}

// hints are those of each endpoint, by its address.
func hints(s sources.Service) map[netip.Addr][]string {
	all := map[netip.Addr][]string{}
	for _, e := range s.Endpoints {
		if e.Hints != nil {
			all[e.Addr] = slices.Concat(e.Hints.Nodes, e.Hints.Zones)
		}
	}
	return all
}

// ofService notes what of a Service is not served.
func ofService(s *manifest.Service, proxy string, sliced map[string]bool) []Note {
	var notes []Note
	full := sources.Service{Namespace: s.Metadata.Namespace, Name: s.Metadata.Name}.FullName()
	note := func(format string, args ...any) {
		notes = append(notes, Note{Origin: s.Metadata.Origin, Service: full, Message: message(format, args...)})
	}
	spec := &s.Spec
	cluster := spec.ClusterIPs
	if len(cluster) == 0 && spec.ClusterIP != "" {
		cluster = []string{spec.ClusterIP}
	}
	switch {
	case !s.Metadata.Labels.Of(proxy):
		note("Service %s: %s", full, manifest.NotOf(proxy))
		return notes
	case s.Metadata.Labels.Headless != nil:
		note("Service %s: its label service.kubernetes.io/headless leaves it to name servers", full)
		return notes
	case spec.Type == string(sources.ExternalName) || slices.Contains(cluster, "None"):
		return nil
	}
	if !sliced[s.Metadata.Namespace+"/"+s.Metadata.Name] {
		note("Service %s: the file has no EndpointSlice of it, so it has no endpoints", full)
	}
	for _, i := range s.Status.LoadBalancer.Ingress {
		if i.IP == "" {
			note("its load balancer has a host name and no address")
		} else if otherFamily(i.IP, cluster) {
			note("load balancer IP %s: %s", i.IP, manifest.OtherFamily)
		}
	}
	if d := spec.TrafficDistribution; d != "" &&
		!slices.Contains([]string{"PreferClose", string(sources.PreferSameZone), string(sources.PreferSameNode)}, d) {
		note("trafficDistribution: its value is not known here")
	}
	return notes
}

// otherFamily reports whether none of the cluster IPs is of an address's family.
func otherFamily(text string, cluster []string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && len(cluster) > 0 && !slices.ContainsFunc(cluster, func(c string) bool {
		own, err := netip.ParseAddr(c)
		return err != nil || own.Is4() == a.Is4()
	})
}

// ofSlice notes why nothing of an EndpointSlice is served.
func ofSlice(e *manifest.EndpointSlice, proxy string) []Note {
	l, why := e.Metadata.Labels, ""
	switch {
	case l.ServiceName == "":
		why = "it has no label kubernetes.io/service-name"
	case l.ProxyName != nil && !l.Of(proxy):
		why = manifest.NotOf(proxy)
	case l.Headless != nil:
		why = "its label service.kubernetes.io/headless leaves it to name servers"
	case e.AddressType != "IPv4" && e.AddressType != "IPv6":
		why = "its addressType is not one of IPv4, IPv6"
	default:
		return nil
	}
	return []Note{{Origin: e.Metadata.Origin, Message: "EndpointSlice " + e.Metadata.Name + ": " + why}}
}
