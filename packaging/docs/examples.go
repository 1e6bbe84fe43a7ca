package docs

import (
	"embed"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// exampleFiles has the configurations of routing daemons that the packages install as examples. Each file has its text
// once.
//
//go:embed examples/*.conf
var exampleFiles embed.FS

// Engine is a routing daemon.
type Engine string

// The routing daemons.
const (
	BIRD       Engine = "bird"
	FRR        Engine = "frr"
	Keepalived Engine = "keepalived"
)

// Engines returns all of them.
func Engines() []Engine { return []Engine{BIRD, FRR, Keepalived} }

// ExampleValues are what an example has of a node.
type ExampleValues struct {
	Table       uint32 // of the routes
	DrainMetric uint32
	File        string       // that keepalived reads; "" = as in the example
	VIPs        []netip.Addr // sorted; none = those of the example
}

// Example returns the example of a routing daemon with the values of a node.
func Example(e Engine, v ExampleValues) (string, error) {
	text, err := exampleFiles.ReadFile("examples/" + string(e) + ".conf")
	if err != nil {
		return "", fmt.Errorf("no example for the routing daemon %q: want one of %q", e, Engines())
	}
	f := exampleFiller{text: string(text)}
	v4, v6 := byFamily(v.VIPs)
	switch e {
	case BIRD:
		f.replace("kernel table 143;", fmt.Sprintf("kernel table %d;", v.Table))
		f.replace("routes of table 143", fmt.Sprintf("routes of table %d", v.Table))
		f.replace("above 1000 (", fmt.Sprintf("to %d (", v.DrainMetric))
		f.replace("krt_metric > 1000", fmt.Sprintf("krt_metric >= %d", v.DrainMetric))
	case FRR:
		f.replace("metric to 2000", fmt.Sprintf("metric to %d", v.DrainMetric))
		f.replace("match metric 2000", fmt.Sprintf("match metric %d", v.DrainMetric))
		if v.VIPs != nil {
			f.block("ip prefix-list vips ", prefixList("ip", v4, 24, 32))
			f.block("ipv6 prefix-list vips ", prefixList("ipv6", v6, 64, 128))
		}
	case Keepalived:
		if v.File != "" {
			f.replace("/run/svcproxy/announced", v.File)
		}
		if v.VIPs != nil {
			f.replace("\tvirtual_ipaddress {\n\t\t192.0.2.80/32\n\t}\n", addresses(v4, v6))
		}
	}
	return f.text, f.err
}

// TrackFile returns the part of keepalived's example that names the file of svcproxy.
func TrackFile(file string) (string, error) {
	text, err := Example(Keepalived, ExampleValues{File: file})
	_, part, begins := strings.Cut(text, "}\n\n")
	part, _, ends := strings.Cut(part, "\n\n")
	if err == nil && !(begins && ends) {
		err = fmt.Errorf("the example of keepalived has no track_file of its own")
	}
	return part + "\n", err
}

// exampleFiller replaces parts of a text. Each must be there: a changed example would keep values of another node.
type exampleFiller struct {
	text string
	err  error
}

func (f *exampleFiller) replace(old, by string) {
	if !strings.Contains(f.text, old) {
		f.err = fmt.Errorf("the example has no %q", old)
	}
	f.text = strings.ReplaceAll(f.text, old, by)
}

// block replaces the lines that begin with a text by others.
func (f *exampleFiller) block(begin, by string) {
	var out strings.Builder
	done := false
	for line := range strings.Lines(f.text) {
		if !strings.HasPrefix(line, begin) {
			out.WriteString(line)
		} else if !done {
			out.WriteString(by)
			done = true
		}
	}
	if !done {
		f.err = fmt.Errorf("the example has no line %q", begin)
	}
	f.text = out.String()
}

func byFamily(all []netip.Addr) (v4, v6 []netip.Addr) {
	for _, a := range all {
		if a.Is4() {
			v4 = append(v4, a)
		} else {
			v6 = append(v6, a)
		}
	}
	return v4, v6
}

// prefixList permits the single addresses in the networks of some VIPs, so that a new VIP in one of them needs no new
// configuration. Without VIPs it permits none.
func prefixList(command string, vips []netip.Addr, bits, whole int) string {
	var networks []netip.Prefix
	for _, a := range vips {
		p, err := a.Prefix(bits)
		if err == nil && !slices.Contains(networks, p) {
			networks = append(networks, p)
		}
	}
	if networks == nil {
		return command + " prefix-list vips seq 5 deny any\n"
	}
	var b strings.Builder
	for i, p := range networks {
		fmt.Fprintf(&b, "%s prefix-list vips seq %d permit %s ge %d\n", command, 5*(i+1), p, whole)
	}
	return b.String()
}

// addresses are the VIPs for keepalived. The advertisements of an instance are of one family: addresses of
// the other one are excluded from them, and follow the same master.
func addresses(v4, v6 []netip.Addr) string {
	var b strings.Builder
	list := func(name string, vips []netip.Addr) {
		if len(vips) == 0 {
			return
		}
		fmt.Fprintf(&b, "\t%s {\n", name)
		for _, a := range vips {
			fmt.Fprintf(&b, "\t\t%s/%d\n", a, a.BitLen())
		}
		b.WriteString("\t}\n")
	}
	if len(v4) == 0 {
		v4, v6 = v6, nil
	}
	list("virtual_ipaddress", v4)
	list("virtual_ipaddress_excluded", v6)
	return b.String()
}
