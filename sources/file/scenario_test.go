package file

import (
	"flag"
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"os"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/sources"
)

var update = flag.Bool("update", false, "write what came out into the scenario files")

// TestScenarios runs each testdata/scenario/*.txtar. It decodes and validates its *.toml files one by one and merges
// them in order of name; the result is "want". "host" has facts about the node.
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob("testdata/scenario/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, a)
			i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
			switch {
			case *update && i >= 0:
				a.Files[i].Data = []byte(got)
			case *update:
				a.Files = append(a.Files, txtar.File{Name: "want", Data: []byte(got)})
			case i < 0:
				t.Fatalf("no want; got:\n%s", got)
			case got != string(a.Files[i].Data):
				t.Fatalf("got:\n%s\nwant:\n%s", got, a.Files[i].Data)
			}
			if *update {
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// play returns the outcome as text: problems and warnings first, then the services.
func play(t *testing.T, a *txtar.Archive) string {
	var out strings.Builder
	var host sources.HostFacts
	var tables []sources.Table
	say := func(what string, problems []sources.Problem) {
		for _, p := range problems {
			fmt.Fprintf(&out, "%s: %s\n", what, p.Error())
		}
	}
	for _, f := range a.Files {
		if f.Name == "host" {
			host = facts(t, string(f.Data))
		}
	}
	for _, f := range a.Files {
		if !strings.HasSuffix(f.Name, ".toml") {
			continue
		}
		// Archives cannot hold these bytes as they are.
		data := strings.NewReplacer("^M", "\r", "^Z", "\xff").Replace(string(f.Data))
		table, warnings, problems := Decode(f.Name, []byte(data))
		doubts, errs := sources.Doubts(host, table), sources.Validate(table)
		say("error", problems)
		say("invalid", errs)
		say("warning", append(warnings, doubts...))
		if len(problems)+len(errs) == 0 {
			tables = append(tables, table)
		}
	}
	merged, conflicts := sources.Merge(host, sources.Join(tables...))
	say("merge", conflicts)
	for _, s := range merged.Services.All() {
		out.WriteString(dump(*s))
	}
	return out.String()
}

func facts(t *testing.T, text string) (h sources.HostFacts) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "node":
			h.NodeName = value
		case "addr":
			h.Addrs = append(h.Addrs, netip.MustParseAddr(value))
		case "gateway":
			h.Gateways = append(h.Gateways, netip.MustParseAddr(value))
		case "local":
			h.LocalCIDRs = append(h.LocalCIDRs, netip.MustParsePrefix(value))
		case "forward":
			h.Forward = sources.Forward(value)
		case "mtu":
			fmt.Sscan(value, &h.MTU)
		case "mode":
			h.Mode = value
		case "scheduler":
			h.Scheduler = value
		case "kernel":
			h.Schedulers = strings.Fields(value)
		case "unmasqueraded":
			h.ClusterIPsKeepClients = true
		default:
			t.Fatalf("unknown fact %q", key)
		}
	}
	return h
}

// dump writes a service without its defaults.
func dump(s sources.Service) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", s.Origin, s.FullName(), s.Type)
	list := func(name string, n int, item func(int) string) {
		for i := range n {
			fmt.Fprintf(&b, " %s=%s", name, item(i))
		}
	}
	list("cluster", len(s.ClusterIPs), func(i int) string { return s.ClusterIPs[i].String() })
	list("external", len(s.ExternalIPs), func(i int) string { return s.ExternalIPs[i].String() })
	list("lb", len(s.LoadBalancerIPs), func(i int) string {
		return s.LoadBalancerIPs[i].Addr.String() + string(s.LoadBalancerIPs[i].Mode)
	})
	list("range", len(s.SourceRanges), func(i int) string { return s.SourceRanges[i].String() })
	option := func(name string, value, usual any) {
		if value != usual {
			fmt.Fprintf(&b, " %s=%v", name, value)
		}
	}
	option("etp", s.ExternalTrafficPolicy, sources.Cluster)
	option("itp", s.InternalTrafficPolicy, sources.Cluster)
	option("affinity", s.Affinity, sources.AffinityNone)
	option("timeout", s.AffinityTimeout, sources.DefaultAffinityTimeout)
	option("health", s.HealthCheckNodePort, uint16(0))
	option("notready", s.PublishNotReadyAddresses, false)
	option("distribution", s.TrafficDistribution, sources.DistributeEvenly)
	option("scheduler", s.Scheduler, "")
	if s.SchedulerFlags != 0 {
		fmt.Fprintf(&b, " flags=%q", s.SchedulerFlags.Words(s.Scheduler))
	}
	option("onePacket", s.OnePacket, false)
	option("prefix4", s.AffinityPrefix4, uint8(0))
	option("prefix6", s.AffinityPrefix6, uint8(0))
	option("forward", string(s.Forward), "")
	if s.DrainTimeout != nil {
		fmt.Fprintf(&b, " drain=%s", *s.DrainTimeout)
	}
	if s.Announce != nil {
		fmt.Fprintf(&b, " announce=%t", *s.Announce)
	}
	b.WriteString("\n")
	if s.HealthCheck != nil {
		b.WriteString("\tcheck " + dumpCheck(*s.HealthCheck) + "\n")
	}
	for _, p := range s.Ports {
		fmt.Fprintf(&b, "\tport %q %d/%s -> %d", p.Name, p.Port, p.Protocol, p.TargetPort)
		option("node", p.NodePort, uint16(0))
		b.WriteString("\n")
	}
	for _, w := range s.Withheld {
		fmt.Fprintf(&b, "\twithout %s\n", w.Claim)
	}
	for _, e := range s.Endpoints {
		fmt.Fprintf(&b, "\tendpoint %s", e.Addr)
		for _, p := range e.Ports {
			fmt.Fprintf(&b, " %q:%d/%s", p.Name, p.Port, p.Protocol)
		}
		option("weight", e.Weight, uint32(1))
		option("node", e.NodeName, "")
		option("zone", e.Zone, "")
		option("ready", e.Ready, true)
		option("serving", e.Serving, true)
		option("terminating", e.Terminating, false)
		option("backup", e.Backup, false)
		option("unchecked", e.Unchecked, false)
		option("max", e.MaxConnections, uint32(0))
		option("resume", e.ResumeConnections, uint32(0))
		list("nodehint", len(e.NodeHints()), func(i int) string { return e.NodeHints()[i] })
		list("zonehint", len(e.ZoneHints()), func(i int) string { return e.ZoneHints()[i] })
		b.WriteString("\n")
	}
	return b.String()
}

// dumpCheck writes a health check without the defaults of all checks: the fields that differ, by their names.
func dumpCheck(c sources.HealthCheck) string {
	var words []string
	var walk func(at string, v, usual reflect.Value)
	walk = func(at string, v, usual reflect.Value) {
		switch {
		case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[netip.Addr]():
			for i := range v.NumField() {
				walk(v.Type().Field(i).Name, v.Field(i), usual.Field(i))
			}
		case at == "Unset" || v.Interface() == usual.Interface():
		case v.Kind() == reflect.String:
			words = append(words, fmt.Sprintf("%s=%q", at, v))
		default:
			words = append(words, fmt.Sprintf("%s=%v", at, v))
		}
	}
	walk("", reflect.ValueOf(c), reflect.ValueOf(sources.DefaultHealthCheck()))
	return strings.Join(words, " ")
}
