package iptables

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// parseSave finds the chains that kernel.ParseObserved finds, without foreign ones, in output of
// iptables-save of both back ends and families from Debian 12.
func TestParseSave(t *testing.T) {
	for _, file := range seeds(t) {
		text := read(t, file)
		f := familyOf(file)
		got, err := parseSave(text, f, kernel.DefaultNames)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		s := kernel.State{Chains: got}
		s.Sort()
		set, reject := "KUBE-CLUSTER-IP", "icmp-port-unreachable"
		if f == kernel.IPv6 {
			set, reject = "KUBE-6-CLUSTER-IP", "icmp6-port-unreachable"
		}
		var names []string
		for _, c := range s.Chains {
			names = append(names, c.Table+" "+c.Name)
		}
		want := "filter INPUT,filter KUBE-FORWARD,filter KUBE-IPVS-FILTER,nat KUBE-MARK-MASQ,nat KUBE-POSTROUTING,nat KUBE-SERVICES,nat PREROUTING"
		if g := strings.Join(names, ","); g != want {
			t.Errorf("%s: chains\n%s, want\n%s", file, g, want)
		}
		wantRules(t, file, s, "INPUT", `-m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER`)
		wantRules(t, file, s, "PREROUTING", `-m comment --comment "kubernetes service portals" -j KUBE-SERVICES`)
		last := "-m conntrack --ctstate NEW -m set --match-set " + set + " dst -j REJECT --reject-with " + reject
		for _, c := range s.Chains {
			if c.Name == "KUBE-IPVS-FILTER" && !strings.HasSuffix(c.Rules, "\n"+last) {
				t.Errorf("%s: KUBE-IPVS-FILTER does not end in %q:\n%s", file, last, c.Rules)
			}
		}
	}
}

func wantRules(t *testing.T, file string, s kernel.State, name, rules string) {
	t.Helper()
	for _, c := range s.Chains {
		if c.Name == name && c.Rules != rules {
			t.Errorf("%s: %s has\n%s, want\n%s", file, name, c.Rules, rules)
		}
	}
}

// A rule has one form, however it was printed.
func TestCanonical(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{`-A KUBE-SERVICES -j RETURN`, `-j RETURN`},
		{`[12:345] -A KUBE-SERVICES -j RETURN`, `-j RETURN`},
		{`-A KUBE-SERVICES  -p 6  -j RETURN`, `-p tcp -j RETURN`},
		{`-A KUBE-SERVICES -p icmpv6 -j RETURN`, `-p ipv6-icmp -j RETURN`},
		{`-A KUBE-SERVICES -m comment --comment "word" -j RETURN`, `-m comment --comment word -j RETURN`},
		{`-A KUBE-SERVICES -m comment --comment "it's" -j RETURN`, `-m comment --comment "it\'s" -j RETURN`},
		{`-A KUBE-SERVICES -m comment --comment "a \\ \"b\"" -j RETURN`, `-m comment --comment "a \\ \"b\"" -j RETURN`},
		{`-A KUBE-SERVICES -m comment --comment "" -j RETURN`, `-m comment --comment "" -j RETURN`},
		{`-A INPUT -m comment --comment "-j" KUBE-SERVICES`, ``},
		{`-A PREROUTING -g KUBE-SERVICES`, `-g KUBE-SERVICES`},
		{`-A PREROUTING -j KUBE-FORWARD`, ``}, // ours in table filter only
		{`-A OTHER -j KUBE-SERVICES`, ``},
	} {
		chains, err := parseSave("*nat\n"+test.line+"\nCOMMIT\n", kernel.IPv4, kernel.DefaultNames)
		got := ""
		if len(chains) > 0 {
			got = chains[0].Rules
		}
		if err != nil || got != test.want {
			t.Errorf("%s\n got %s, %v\nwant %s", test.line, got, err, test.want)
		}
	}
}

func TestParseSaveRefuses(t *testing.T) {
	for _, text := range []string{
		"*nat\n:KUBE-SERVICES - [0:0]\n",
		"-A KUBE-SERVICES -j RETURN\n",
		"*nat\nnonsense\nCOMMIT\n",
		"*nat\n-A KUBE-SERVICES -m comment --comment \"open\nCOMMIT\n",
		"*nat\n-A KUBE-SERVICES -m comment --comment \"a\"b\nCOMMIT\n",
	} {
		if chains, err := parseSave(text, kernel.IPv4, kernel.DefaultNames); err == nil {
			t.Errorf("%q was read as %v", text, chains)
		}
	}
}

// Everything parsed is ours, and it is the same when printed and parsed again.
func FuzzParseSave(f *testing.F) {
	for _, file := range seeds(f) {
		f.Add(read(f, file))
	}
	f.Add("*nat\n[1:2] -A PREROUTING -m comment --comment \"it\\'s\" -p 17 -j KUBE-SERVICES\nCOMMIT\n")
	f.Fuzz(func(t *testing.T, text string) {
		chains, err := parseSave(text, kernel.IPv4, kernel.DefaultNames)
		if err != nil {
			return
		}
		for _, c := range chains {
			if !c.BuiltIn() && !kernel.DefaultNames.OwnsChain(c.Table, c.Name) {
				t.Fatalf("%v is not ours", c)
			}
			again, err := parseSave("*"+c.Table+"\n"+c.Text()+"COMMIT\n", kernel.IPv4, kernel.DefaultNames)
			if err != nil || len(again) != 1 || again[0] != c {
				t.Fatalf("%q is read again as %q, %v", c.Text(), again, err)
			}
		}
	})
}

func seeds(t testing.TB) []string {
	files, err := filepath.Glob("testdata/save/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples of iptables-save: %v", err)
	}
	return files
}

func familyOf(file string) kernel.Family {
	if strings.HasPrefix(filepath.Base(file), "ip6") {
		return kernel.IPv6
	}
	return kernel.IPv4
}

func read(t testing.TB, file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
