package sources

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"unicode"
)

// Described is a Change in words.
type Described struct {
	Service string // as DisplayName
	Verb    string // "added", "changed" or "removed"
	What    string // what differs: "endpoint 10.2.1.10:8080 weight 1 -> 0; scheduler rr -> wrr"
	Origin  Origin // of the later service; of the earlier one if it was removed
}

// String is "web: scheduler rr -> wrr", or "web: added (1 address, 1 port, 2 endpoints)".
func (d Described) String() string {
	if d.Verb == "changed" {
		return d.Service + ": " + d.What
	}
	return fmt.Sprintf("%s: %s (%s)", d.Service, d.Verb, d.What)
}

// maxParts is how many differences of one service are named.
const maxParts = 5

// Describe says what the first changes of a Delta are, at most as many as most.
func Describe(before, now Table, d Delta, most int) []Described {
	var list []Described
	for _, c := range d.Changes[:min(most, len(d.Changes))] {
		switch {
		case c.Was < 0:
			is := now.Services.At(c.Is)
			list = append(list, Described{c.DisplayName(), "added", offer(is), is.Origin})
		case c.Is < 0:
			was := before.Services.At(c.Was)
			list = append(list, Described{c.DisplayName(), "removed", offer(was), was.Origin})
		default:
			was, is := before.Services.At(c.Was), now.Services.At(c.Is)
			what := differences(was, is, c).String()
			if what == "" {
				what = "withheld parts" // which have warnings of their own
			}
			list = append(list, Described{c.DisplayName(), "changed", what, is.Origin})
		}
	}
	return list
}

// offer says what a service that came or went has: "3 addresses, 2 ports, 4 endpoints".
func offer(s *Service) string {
	return strings.Join([]string{
		Count(len(s.ClusterIPs)+len(s.ExternalIPs)+len(s.LoadBalancerIPs), "address"), Count(len(s.Ports), "port"),
		Count(len(s.Endpoints), "endpoint"),
	}, ", ")
}

// parts are what differs in one service: in words for the first maxParts, and the number of the others.
type parts struct {
	texts []string
	more  int
}

// named reports whether the next difference gets a text, and counts it if not.
func (p *parts) named() bool {
	if len(p.texts) < maxParts {
		return true
	}
	p.more++
	return false
}

func (p *parts) add(text string) { p.texts = append(p.texts, text) }

func (p *parts) String() string {
	text := strings.Join(p.texts, "; ")
	if p.more > 0 {
		text += fmt.Sprintf("; and %d more", p.more)
	}
	return text
}

// differences are those of a service that both tables have.
func differences(was, is *Service, c Change) *parts {
	var p parts
	if c.Endpoints {
		p.addEndpoints(was.Endpoints, is.Endpoints)
	}
	if c.Service {
		p.addFields("", reflect.ValueOf(was).Elem(), reflect.ValueOf(is).Elem())
	}
	return &p
}

// addEndpoints adds endpoints that came, went, or differ. Both lists are sorted by address.
func (p *parts) addEndpoints(was, is []Endpoint) {
	for len(was) > 0 || len(is) > 0 {
		switch {
		case len(is) == 0 || len(was) > 0 && was[0].Addr.Less(is[0].Addr):
			if p.named() {
				p.add("endpoint " + endpointText(&was[0]) + " removed")
			}
			was = was[1:]
		case len(was) == 0 || is[0].Addr.Less(was[0].Addr):
			if p.named() {
				p.add("endpoint " + endpointText(&is[0]) + " added")
			}
			is = is[1:]
		default:
			if !sameEndpoint(was[0], is[0]) {
				prefix := ""
				if len(p.texts) < maxParts {
					prefix = "endpoint " + endpointText(&is[0]) + " "
				}
				p.addFields(prefix, reflect.ValueOf(&was[0]).Elem(), reflect.ValueOf(&is[0]).Elem())
			}
			was, is = was[1:], is[1:]
		}
	}
}

func endpointText(e *Endpoint) string {
	if len(e.Ports) == 1 {
		return netip.AddrPortFrom(e.Addr, e.Ports[0].Port).String()
	}
	return e.Addr.String()
}

// undescribed are the fields that are not compared as the others: names and addresses are the same, endpoints are
// compared one by one, what is withheld has warnings of its own, and Weighted follows from the scheduler.
var undescribed = map[string]bool{"Weighted": true, "Namespace": true, "Name": true, "Addr": true, "Endpoints": true,
	"Withheld": true, "Origin": true, "Unset": true}

// addFields adds the fields of two structs that differ, under their names in services.toml as a rule. It reads
// the fields by reflection, so that a new one is described, too.
func (p *parts) addFields(prefix string, was, is reflect.Value) {
	for i := range was.NumField() {
		a, b := was.Field(i), is.Field(i)
		if !a.CanInterface() || sameValue(a, b) {
			continue
		}
		field := was.Type().Field(i).Name
		if undescribed[field] {
			continue
		}
		optional := a.Kind() == reflect.Pointer && a.Type().Elem().Kind() == reflect.Struct
		if optional && !a.IsNil() && !b.IsNil() {
			p.addFields(prefix+keyName(field)+".", a.Elem(), b.Elem())
			continue
		}
		if !p.named() {
			continue
		}
		name := prefix + keyName(field)
		switch {
		case a.Kind() == reflect.Slice:
			p.add(name + " " + listDifference(a, b))
		case a.Type() == reflect.TypeFor[Probe](): // it may have passwords, and the log is for more people than the file
			p.add(name + " changed")
		case optional && a.IsNil():
			p.add(name + " added")
		case optional:
			p.add(name + " removed")
		default:
			p.add(fmt.Sprintf("%s %s -> %s", name, valueText(a), valueText(b)))
		}
	}
}

// sameValue reports whether a field has the same value in two structs. Empty lists are the same.
func sameValue(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Slice:
		if n := a.Len(); n == b.Len() && (n == 0 || a.UnsafePointer() == b.UnsafePointer()) {
			return true
		}
	case reflect.Pointer:
		if a.Pointer() == b.Pointer() {
			return true
		}
	default:
		if a.Type().Comparable() { // Value.Comparable would allocate for each field of an address
			return a.Equal(b)
		}
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// listDifference says what came to a list and what went: "-10.96.0.8 +10.96.0.9". If only the order differs, it says
// that.
func listDifference(was, is reflect.Value) string {
	texts := func(v reflect.Value) (list []string) {
		for i := range v.Len() {
			list = append(list, valueText(v.Index(i)))
		}
		return list
	}
	a, b := texts(was), texts(is)
	var parts []string
	add := func(sign string, list, others []string) {
		known := map[string]bool{}
		for _, text := range others {
			known[text] = true
		}
		for _, text := range list {
			if !known[text] {
				parts = append(parts, sign+text)
			}
		}
	}
	add("-", a, b)
	add("+", b, a)
	if len(parts) == 0 {
		return "in another order"
	}
	if more := len(parts) - maxParts; more > 0 {
		parts = append(parts[:maxParts], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, " ")
}

// valueText is a value in words.
func valueText(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "default"
		}
		v = v.Elem()
	}
	switch x := v.Interface().(type) {
	case Port:
		text := fmt.Sprintf("%d/%s:%d", x.Port, strings.ToLower(x.Protocol.String()), x.TargetPort)
		if x.NodePort != 0 {
			text += fmt.Sprintf(" (node port %d)", x.NodePort)
		}
		return strings.TrimSpace(x.Name + " " + text)
	case EndpointPort:
		return strings.TrimSpace(fmt.Sprintf("%s %d/%s", x.Name, x.Port, strings.ToLower(x.Protocol.String())))
	case VIP:
		return x.Addr.String()
	case SchedulerFlags:
		return x.text()
	}
	if text := fmt.Sprint(v.Interface()); text != "" {
		return text
	}
	return `""`
}

// keys are the keys of services.toml that are not named as their field.
var keys = map[string]string{
	"FWMark": "fwmark", "KeepsClients": "keepClientAddress", "SourceRanges": "loadBalancerSourceRanges",
	"Affinity": "sessionAffinity", "AffinityTimeout": "sessionAffinityTimeout",
	"Rate": "newConnections", "AffinityPrefix4": "sessionAffinityPrefix4", "AffinityPrefix6": "sessionAffinityPrefix6",
}

// keyName is the name of a field as services.toml writes it: "clusterIPs".
func keyName(field string) string {
	if key := keys[field]; key != "" {
		return key
	}
	runes := []rune(field)
	for i := range runes {
		if i > 0 && (i+1 == len(runes) || unicode.IsLower(runes[i+1])) {
			break
		}
		runes[i] = unicode.ToLower(runes[i])
	}
	return string(runes)
}
