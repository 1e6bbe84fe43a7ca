package config

import (
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// words are valid texts of fields that do not take every text.
var words = map[string][]string{
	"mode":                            {"", "ipvs", "nftables", "iptables", "userspace"},
	"showHiddenMetricsForVersion":     {"", "1.35", "1.30"},
	"portRange":                       {"", "0-0", "10000", "10000-10100", "10000+100"},
	"stateDir":                        {"/", "/var/lib/svcproxy", "/a b/\"c\"/é\u2028"},
	"runtimeDir":                      {"/run/svcproxy", "/tmp/~"},
	"detectLocal.bridgeInterface":     {"br0", "null"},
	"detectLocal.interfaceNamePrefix": {"veth", "0"},
	"ipvs.scheduler":                  {"rr", "wlc", "mh"},
	"ipvs.deviceName":                 {"kube-ipvs0", "true", "1"},
	"ipvs.namePrefix":                 {"KUBE", "EDGE", "0"},
	"sources.apiserver.proxyName":     {"svcproxy", "a.b_c-1", ""},
	"announce.file":                   {"", "/run/svcproxy/announced", "/a b/\"c\""},
	"notify.webhook":                  {"", "https://alerts.example.net/x?y=z", "http://[2001:db8::1]:8080/"},
	"health.execUser":                 {"", "nobody", "_probe", "a.b-c$"},
	"ha.sync.link":                    {"", "eth1", "0"},
	"ha.sync.group":                   {"224.0.0.81", "ff02::81"},
	"ha.sync.threshold":               {"", "0 3", "3 0"},
}

// configs draws configurations that Decode could return.
func configs() *rapid.Generator[Config] {
	return rapid.Custom(func(t *rapid.T) Config {
		c := Default()
		for i := range allFields {
			f := &allFields[i]
			if rapid.Bool().Draw(t, "default") {
				continue
			}
			if err := f.set(&c, drawn(t, f)); err != nil {
				t.Fatalf("%s %v", f.key, err)
			}
			if f.is(raised) {
				c.Conntrack.Written = append(c.Conntrack.Written, f.key)
			}
		}
		c.IPTables.MinSyncPeriod = min(c.IPTables.MinSyncPeriod, c.IPTables.SyncPeriod)
		c.IPVS.MinSyncPeriod = min(c.IPVS.MinSyncPeriod, c.IPVS.SyncPeriod)
		c.Health.Timeout = min(c.Health.Timeout, 10*c.Health.Interval)
		fitAnnounce(&c.Announce, &c.IPVS)
		if c.DetectLocalMode == "BridgeInterface" && c.BridgeInterface == "" || c.DetectLocalMode == "InterfaceNamePrefix" && c.InterfaceNamePrefix == "" {
			c.DetectLocalMode = "NodeCIDR"
		}
		c.NFTables.Flowtable = c.NFTables.Flowtable && c.Mode == "nftables"
		if c.ConnSync.Link == "" {
			c.ConnSync.Role = "off"
		}
		if c.ConnSync.MaxLen < minSyncLen {
			c.ConnSync.MaxLen = 0
		}
		return c
	})
}

// fitAnnounce makes drawn keys of table announce such that Decode does not refuse them together.
func fitAnnounce(a *Announce, ipvs *IPVS) {
	if a.Table == localTable {
		a.Table = 0
	}
	if a.Mode != announce.Off && ipvs.VIPBinding == "address" || a.Mode == announce.VRRP && (a.File == "" || !ipvs.StrictARP) ||
		a.DrainMetric <= a.Metric {
		a.Mode = announce.Off
	}
}

func drawn(t *rapid.T, f *field) any {
	if known := words[f.key]; known != nil {
		return rapid.SampledFrom(known).Draw(t, f.key)
	}
	switch f.Kind {
	case fields.KindWord:
		return rapid.SampledFrom(f.Words).Draw(t, f.key)
	case fields.KindString:
		if f.key == "clusterCIDR" {
			return strings.Join([]string{"10.0.0.0/8", "fd00::/8"}[:rapid.IntRange(0, 2).Draw(t, f.key)], ",")
		}
		return rapid.OneOf(rapid.SampledFrom([]string{"", "0", "0s", "null", "~", "true", "a: b", "# c", "1.30"}), rapid.String()).Draw(t, f.key)
	case fields.KindBoolean:
		return rapid.Bool().Draw(t, f.key)
	case fields.KindAmount:
		return rapid.SampledFrom([]any{int64(0), int64(2), int64(math.MaxInt32), "0%", "50%", "100%"}).Draw(t, f.key)
	case fields.KindInteger:
		return int64(rapid.IntRange(f.Min, f.Max).Draw(t, f.key))
	case fields.KindNumber:
		if f.key == "health.jitter" {
			return rapid.Float64Range(0, 0.5).Draw(t, f.key)
		}
		return rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64)).Draw(t, f.key)
	case fields.KindDuration:
		return drawnDuration(t, f)
	case fields.KindAddress:
		return addrs().Draw(t, f.key).String()
	case fields.KindListener:
		if rapid.Bool().Draw(t, "off") {
			return ""
		}
		return netip.AddrPortFrom(addrs().Draw(t, f.key), rapid.Uint16Min(1).Draw(t, "port")).String()
	case fields.KindStrings:
		return drawnList(t, f.key)
	case fields.KindBooleans:
		g := make(map[string]any)
		for name, on := range rapid.MapOf(rapid.String(), rapid.Bool()).Draw(t, f.key) {
			g["A"+name] = on
		}
		return g
	}
	t.Fatalf("%s: no way to draw a %s", f.key, f.Kind)
	return nil
}

// drawnDuration is a duration that the field takes: some refuse 0, some parts of a second.
func drawnDuration(t *rapid.T, f *field) any {
	var c Config
	takes := func(d time.Duration) bool { return f.set(&c, d.String()) == nil }
	least := time.Duration(1)
	if !takes(least) {
		least = time.Second
	}
	most := time.Duration(math.MaxInt64)
	if !takes(most) { // of table health
		least, most = 10*time.Millisecond, 24*time.Hour
		if !takes(least) { // of table dns
			least = time.Second
		}
		if !takes(most) {
			most = time.Hour
		}
	}
	longer := rapid.Int64Range(int64(least), int64(most))
	if takes(0) {
		longer = rapid.OneOf(rapid.Just(int64(0)), longer)
	}
	return time.Duration(longer.Draw(t, f.key)).String()
}

func drawnList(t *rapid.T, key string) any {
	switch key {
	case "nodePortAddresses":
		if rapid.Bool().Draw(t, "primary") {
			return []any{primary}
		}
	case "dns.servers":
		return items(t, key, func(t *rapid.T) string {
			return netip.AddrPortFrom(addrs().Draw(t, "address"), rapid.Uint16Min(1).Draw(t, "port")).String()
		})
	case "node.addresses":
		return items(t, key, func(t *rapid.T) string { return addrs().Draw(t, "address").String() })
	case "metricsAllowedHosts":
		return items(t, key, func(t *rapid.T) string {
			return rapid.StringMatching(`\.?[A-Za-z0-9_]{1,9}(\.[a-z]{1,9})?|\*`).Draw(t, "host")
		})
	case "notify.exec":
		if rest := rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, key); len(rest) > 0 {
			list := []any{"/usr/local/bin/page"}
			for _, arg := range rest {
				list = append(list, arg)
			}
			return list
		}
		return []any{}
	case "sources.file.paths", "health.execDirs":
		return items(t, key, func(t *rapid.T) string { return "/" + rapid.String().Draw(t, "path") })
	}
	return items(t, key, prefixText)
}

func items(t *rapid.T, key string, one func(*rapid.T) string) []any {
	list := []any{}
	for range rapid.IntRange(0, 3).Draw(t, key) {
		list = append(list, one(t))
	}
	return list
}

func prefixText(t *rapid.T) string {
	a := addrs().Draw(t, "address")
	return netip.PrefixFrom(a, rapid.IntRange(0, a.BitLen()).Draw(t, "bits")).Masked().String()
}

func addrs() *rapid.Generator[netip.Addr] {
	return rapid.Custom(func(t *rapid.T) netip.Addr {
		b := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes")
		if rapid.Bool().Draw(t, "IPv4") {
			return netip.AddrFrom4([4]byte(b))
		}
		return netip.AddrFrom16([16]byte(b)).Unmap()
	})
}

// A configuration that is written, as TOML or YAML, is read back the same, without
// warnings about unknown or unused keys.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := configs().Draw(t, "config")
		for name, text := range map[string][]byte{"c.toml": c.TOML(), "c.yaml": c.YAML()} {
			got, warnings, err := Decode(name, text, nil)
			if err != nil || !reflect.DeepEqual(got, c) {
				t.Errorf("%s: %v: %q\n%s", name, err, c.Changes(got), text)
			}
			for _, w := range warnings {
				if strings.Contains(w.Message, "unknown key") || strings.Contains(w.Message, whyUnused("conntrack.max")) {
					t.Errorf("%s: %v", name, w)
				}
			}
		}
	})
}

// A running process adopts the next configuration, but for the keys that need a
// restart, which Adopt returns.
func TestAdoptDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		running, next := configs().Draw(t, "running"), configs().Draw(t, "next")
		now, kept := running.Adopt(next)
		for _, c := range running.Changes(now) {
			if fieldOf(c.Key).is(restart) {
				t.Errorf("changed: %q", c)
			}
		}
		for _, c := range next.Changes(now) {
			if !fieldOf(c.Key).is(restart) {
				t.Errorf("not adopted: %q", c)
			}
		}
		if got := len(next.Changes(now)); got != len(kept) {
			t.Errorf("%d keys kept, said of %d", got, len(kept))
		}
	})
}
