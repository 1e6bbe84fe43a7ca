package config

import (
	"iter"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// meantKey is our own key of a KubeProxyConfiguration. It lists the keys whose zero is
// a value and not the default, so that YAML can express all that svcproxy.toml can.
const meantKey = "explicit"

// unused are the fields of KubeProxyConfiguration that have no effect here, by reason.
// They cover every release up to 1.36.
var unused = []struct {
	why  string
	keys []string
}{
	{"it is for Windows", []string{"winkernel.networkName", "winkernel.sourceVip", "winkernel.enableDSR",
		"winkernel.rootHnsEndpointName", "winkernel.forwardHealthCheckVip", "windowsRunAsService"}},
	{"kube-proxy no longer has it", []string{"resourceContainer", "ipvs.ipSet.hashSize", "ipvs.ipSet.maxElements"}},
	{"conntrack.maxPerCore and conntrack.min are its heirs", []string{"conntrack.max"}},
	{"the mode is not nftables", []string{"nftables.masqueradeBit", "nftables.masqueradeAll", "nftables.syncPeriod",
		"nftables.minSyncPeriod"}},
	{"masqueraded traffic has the address of its interface", []string{"iptables.snatNodeInternalIP"}},
	{"the log is one stream without buffers or rules by file", []string{"logging.vmodule", "logging.sanitization",
		"logging.options.json.splitStream", "logging.options.json.infoBufferSize", "logging.options.text.splitStream",
		"logging.options.text.infoBufferSize",
		// Some published samples have these beside an empty options.
		"logging.json.splitStream", "logging.json.infoBufferSize", "logging.text.splitStream",
		"logging.text.infoBufferSize"}},
}

// whyUnused is why a key of KubeProxyConfiguration has no effect; "" if it has one, or
// if there is no such key.
func whyUnused(key string) string {
	for _, u := range unused {
		if slices.Contains(u.keys, key) {
			return u.why
		}
	}
	return ""
}

// isGroup reports whether KubeProxyConfiguration has a mapping under a key.
func isGroup(key string) bool {
	for _, u := range unused {
		if slices.ContainsFunc(u.keys, func(k string) bool { return strings.HasPrefix(k, key+".") }) {
			return true
		}
	}
	return isTableName(key)
}

// meansDefault reports whether a value in a KubeProxyConfiguration means the same as
// an absent key.
func (f *field) meansDefault(v any) bool {
	return !f.is(zero) && (isZero(v) || f.Kind == fields.KindDuration && isNoTime(v))
}

// hints is how many unknown keys get a suggestion. Each takes time.
const hints = 100

// mapping reads the mapping of a dotted name; "" is the object itself.
func (r *yamlReader) mapping(name string, n *yaml.Node) {
	for word, value := range r.pairs(name, n) {
		key := joined(name, word.Value)
		value, line := target(value), r.line(word.Line)
		to, elsewhere := r.ofMode(key)
		if elsewhere {
			continue
		}
		f, why := fieldOf(to), whyUnused(key)
		switch {
		case f != nil:
			r.field(f, value, line)
		case why != "":
			if v := r.value(key, value); !isZero(v) && !isNoTime(v) {
				r.warnAt(line, "%s has no effect: %s", key, why)
			}
		case isGroup(key) && value.Kind == yaml.MappingNode:
			r.mapping(key, value)
		case isGroup(key) && !isNull(value):
			r.refuse(line, "%s %v", key, fields.Node{V: r.value(key, value)}.Mistyped("a mapping"))
		case isGroup(key), slices.Contains([]string{"apiVersion", "kind", meantKey}, key):
		case slices.Contains(foreignKeys, key):
			r.refuse(line, "%s are not read from YAML: write them into services.toml", key)
		default:
			r.unknownKey(name, word.Value, line)
		}
	}
}

// ofMode returns our key for one of the file. In mode nftables, table nftables has what table iptables has for the
// other modes. elsewhere: it does not count, since that table has the key.
func (r *yamlReader) ofMode(key string) (to string, elsewhere bool) {
	if r.nftables == nil {
		return key, false
	}
	if word, ok := strings.CutPrefix(key, "iptables."); ok {
		at := nodeAt(r.nftables, word)
		return key, at != nil && !isNull(at)
	}
	if word, ok := strings.CutPrefix(key, "nftables."); ok && fieldOf(key) == nil {
		return "iptables." + word, false
	}
	return key, false
}

// nodePorts serves node ports at the node's primary addresses in mode nftables, as upstream does.
func (r *yamlReader) nodePorts() {
	if _, given := r.origins["nodePortAddresses"]; !given && r.config.Mode == mode.NFTables {
		r.config.NodePortAddresses = NodePortAddresses{Primary: true}
	}
}

func (r *yamlReader) unknownKey(name, word string, line int) {
	meant := ""
	if r.unknown++; r.unknown <= hints {
		meant = hint(name, word)
	}
	r.warnAt(line, "unknown key %q has no effect%s", joined(name, word), meant)
}

// pairs are the keys of a mapping and their values. It refuses duplicate keys and
// merged mappings.
func (r *yamlReader) pairs(name string, n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(*yaml.Node, *yaml.Node) bool) {
		seen := make(map[string]int, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := target(n.Content[i])
			line := r.line(n.Content[i].Line)
			first, twice := seen[key.Value]
			switch {
			case key.Kind != yaml.ScalarNode:
				r.refuse(line, "%s must be a word, not %s", joined(name, "key"), fields.TypeOf(scalar(key)))
			case key.ShortTag() == "!!merge":
				r.refuse(line, "%s: merged mappings are not read: write the keys out", joined(name, key.Value))
			case twice:
				r.refuse(line, "duplicate key %s, first given at line %d", spelt(joined(name, key.Value)), first)
			default:
				seen[key.Value] = line
				if !yield(n.Content[i], n.Content[i+1]) {
					return
				}
			}
		}
	}
}

// meaning reads the keys whose zero is a value.
func (r *yamlReader) meaning(n *yaml.Node) {
	at := nodeAt(n, meantKey)
	if at == nil || isNull(at) {
		return
	}
	keys, err := stringsOf(fields.Node{V: r.value(meantKey, at)}, "keys")
	if err != nil {
		r.refuse(r.line(at.Line), "%s %v", meantKey, err)
		return
	}
	for i, key := range keys {
		if fieldOf(key) == nil {
			r.refuse(r.line(at.Content[i].Line), "%s names %q, which is no key", meantKey, key)
		}
		r.meant[key] = true
	}
}

// field sets a field, unless its value means the default.
func (r *yamlReader) field(f *field, n *yaml.Node, line int) {
	v := r.value(f.key, n)
	if isNull(n) || f.meansDefault(v) && !r.meant[f.key] {
		return
	}
	r.set(f, f.fit(v, n), line, func(i int) int {
		if n.Kind == yaml.SequenceNode && i < len(n.Content) {
			return r.line(n.Content[i].Line)
		}
		return line
	})
}

// listeners gives listeners without an address the family of bindAddress, as upstream
// does.
func (r *yamlReader) listeners() {
	if !r.config.BindAddress.Is6() {
		return
	}
	if _, given := r.origins["healthzBindAddress"]; !given {
		r.config.HealthzBindAddress = netip.AddrPortFrom(netip.IPv6Unspecified(), healthzPort)
	}
	if _, given := r.origins["metricsBindAddress"]; !given {
		r.config.MetricsBindAddress = netip.AddrPortFrom(netip.IPv6Loopback(), metricsPort)
	}
}

func (d *decoder) warnAt(line int, format string, args ...any) {
	d.warnings = append(d.warnings, problemAt(d.file, line, format, args...))
}
