package nft

import (
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/nl"
	"github.com/svcproxy/svcproxy/proxy/mode/nftables"
)

// A flowtable and its rule are tried before they are wanted. Where the kernel has none, the error names the modules.
func TestFlowtableIsTried(t *testing.T) {
	table := open(t, kernel.DefaultNames)
	err := table.Try(nftables.FlowtableTrial(kernel.DefaultNames))
	if kerneltest.Flowtables.Missing() == nil {
		if err != nil {
			t.Error(err)
		}
		return
	}
	if len(kernel.Missing(err)) != 1 || !strings.Contains(err.Error(), "nf_flow_table") {
		t.Errorf("%v", err)
	}
}

func TestTextOfFlowtables(t *testing.T) {
	was := kernel.Flowtable{Family: kernel.IPv4, Links: "eth0,eth1"}
	is := kernel.Flowtable{Family: kernel.IPv4, Links: "eth0,wg0"}
	none := kernel.Flowtable{Family: kernel.IPv4}
	const flows = "flowtable ip svcproxy flows"
	for _, c := range []struct {
		op   kernel.Op
		want string
	}{
		{kernel.Op{Verb: kernel.Add, Object: was}, "add " + flows + " { hook ingress priority 0; devices = { eth0, eth1 }; counter; }"},
		{kernel.Op{Verb: kernel.Change, Object: is, Was: was}, "delete " + flows + " { devices = { eth1 }; }\n" +
			"add " + flows + " { hook ingress priority 0; devices = { eth0, wg0 }; counter; }"},
		{kernel.Op{Verb: kernel.Change, Object: is, Was: none},
			"add " + flows + " { hook ingress priority 0; devices = { eth0, wg0 }; counter; }"},
		{kernel.Op{Verb: kernel.Change, Object: none, Was: was}, "delete " + flows + " { devices = { eth0, eth1 }; }\n" +
			"add " + flows + " { hook ingress priority 0; counter; }"},
		{kernel.Op{Verb: kernel.Remove, Object: was, Was: was}, "delete " + flows},
	} {
		if got := Text(c.op, kernel.DefaultNames); got != c.want {
			t.Errorf("got\n%s\nwant\n%s", got, c.want)
		}
	}
	for _, f := range []kernel.Flowtable{was, none} {
		o, err := kernel.ParseObserved(f.String() + "\n")
		if err != nil || !slices.Equal(o.Flowtables, []kernel.Flowtable{f}) {
			t.Errorf("%q is read as %q, %v", f, o.String(), err)
		}
	}
}

// A flowtable does not hold up services: a link that is gone is no error, and what the kernel refuses of a flowtable is
// the error of its op alone.
func TestFlowtableHoldsUpNothing(t *testing.T) {
	table := open(t, kernel.DefaultNames)
	s := parsed(t, mapState)
	is := kernel.Flowtable{Family: kernel.IPv4, Links: "gone0,lo"}
	all := append([]kernel.Op{{Verb: kernel.Add, Object: is}}, ops(t, table, s)...)
	errs := table.Apply(all)
	has := kerneltest.Flowtables.Missing() == nil
	for i, err := range errs {
		if (err != nil) != (i == 0 && !has) {
			t.Errorf("%s: %v", all[i], err)
		}
	}
	if len(errs) == 0 && !has {
		t.Error("the op of the flowtable has no error")
	}
	if again := ops(t, table, s); len(again) > 0 {
		t.Errorf("left to do: %v", again)
	}
	wants := [][]kernel.Flowtable{nil}
	if has {
		wants = [][]kernel.Flowtable{{is}, {{Family: kernel.IPv4, Links: "lo"}}}
	}
	got, err := table.ReadFlowtables()
	if err != nil || !slices.ContainsFunc(wants, func(want []kernel.Flowtable) bool { return slices.Equal(got, want) }) {
		t.Errorf("%v, %v, want one of %v", got, err, wants)
	}
	was := is
	is.Links = ""
	if errs := table.Apply([]kernel.Op{{Verb: kernel.Change, Object: is, Was: was}}); has && errs != nil {
		t.Error(errs)
	}
	if got, err := table.ReadFlowtables(); has && (err != nil || !slices.Equal(got, []kernel.Flowtable{is})) {
		t.Errorf("%v, %v, want %v", got, err, is)
	}
}

// The original destination of a connection is looked up in a set.
func TestOriginalDestination(t *testing.T) {
	table := open(t, kernel.DefaultNames)
	text := `create KUBE-IPVS-IPS hash:ip family inet maxelem 4294967295
add KUBE-IPVS-IPS 10.96.0.1
#: iptables
*filter
:KUBE-FORWARD - [0:0]
-A FORWARD -j KUBE-FORWARD
-A KUBE-FORWARD -m conntrack --ctstate DNAT -m set --match-set KUBE-IPVS-IPS origdst -j RETURN
-A KUBE-FORWARD -m set ! --match-set KUBE-IPVS-IPS origdst -j ACCEPT
COMMIT
`
	s := parsed(t, text+strings.NewReplacer("inet ", "inet6 ", "KUBE-IPVS", "KUBE-6-IPVS", "10.96.0.1", "fd00:96::1",
		"iptables", "ip6tables").Replace(text))
	apply(t, table, s)
	readable(t, table, s)
	sameText(t, table, s)
	const words = "-m set --match-set KUBE-HEALTH-CHECK-NODE-PORT origdst -j ACCEPT"
	if _, err := compile(kernel.DefaultNames, kernel.IPv4, "filter", words); err == nil {
		t.Error("a port has no original destination")
	}
}

// Each set of a trial has a number of its own.
func TestNumbersOfTriedSets(t *testing.T) {
	table := open(t, kernel.DefaultNames)
	b, tried, ids, about := new(nl.Batch), make(map[string]bool), uint32(0), []string{}
	for _, c := range new(nftables.Mode).Trial(kernel.DefaultNames) {
		if err := table.tryObjects(b, "t", c, tried, &ids, &about); err != nil {
			t.Fatal(err)
		}
	}
	sets := 0
	for _, what := range about {
		if strings.HasPrefix(what, "a set ") || strings.HasPrefix(what, "a map ") {
			sets++
		}
	}
	if int(ids) != sets || sets < 4 {
		t.Errorf("%d numbers for %d sets", ids, sets)
	}
}
