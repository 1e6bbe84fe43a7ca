package nft

import (
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// mapState has each type of map, and each way to choose a slot.
const mapState = `create KUBE-FRONTENDS map:ip,port family inet maxelem 4294967295
create KUBE-SLOTS map:ip,port,slot family inet maxelem 4294967295
add KUBE-FRONTENDS 10.96.0.1,tcp:80 : goto KUBE-LB-2
add KUBE-FRONTENDS 10.96.0.1,udp:53 : goto KUBE-LB-H
add KUBE-SLOTS 10.96.0.1,tcp:80,slot:0 : 10.2.0.1:8080
add KUBE-SLOTS 10.96.0.1,tcp:80,slot:1 : 10.2.0.2:8080
add KUBE-SLOTS 10.96.0.1,udp:53,slot:0 : 10.2.0.2:53
#: iptables
*nat
:KUBE-LB-2 - [0:0]
:KUBE-LB-A - [0:0]
:KUBE-LB-H - [0:0]
:KUBE-LB-T - [0:0]
:KUBE-SERVICES - [0:0]
-A KUBE-LB-2 -j DNAT --map KUBE-SLOTS dst,dst --random 2
-A KUBE-LB-A -j DNAT --map KUBE-SLOTS dst,dst --hash src/24 --mod 7 --seed 1 --offset 32768
-A KUBE-LB-H -j DNAT --map KUBE-SLOTS dst,dst --hash src,sport --mod 251 --seed 7
-A KUBE-LB-T -j DNAT --map KUBE-SLOTS dst,dst --random 3
-A KUBE-SERVICES -j VMAP --map KUBE-FRONTENDS dst,dst
-A OUTPUT -j KUBE-SERVICES
-A PREROUTING -j KUBE-SERVICES
COMMIT
`

// sixth is mapState for IPv6.
func sixth() string {
	s := strings.NewReplacer("family inet ", "family inet6 ", "KUBE-F", "KUBE-6-F", "KUBE-SLOTS", "KUBE-6-SLOTS",
		"10.96.0.", "fd00:96::", "iptables", "ip6tables").Replace(mapState)
	for _, n := range []string{"1", "2"} {
		s = strings.ReplaceAll(s, "10.2.0."+n+":", "[fd00:2::"+n+"]:")
	}
	return s
}

func parsed(t testing.TB, text string) kernel.State {
	t.Helper()
	o, err := kernel.ParseObserved(text)
	if err != nil {
		t.Fatal(err)
	}
	o.Sort()
	return o.State
}

// TestMaps: maps are written and read back, nft reads them, and each change is one transaction.
func TestMaps(t *testing.T) {
	for name, text := range map[string]string{"ip": mapState, "ip6": sixth(), "both": mapState + sixth()} {
		t.Run(name, func(t *testing.T) {
			table := open(t, kernel.DefaultNames)
			s := parsed(t, text)
			sameText(t, table, s)
			apply(t, table, s)
			readable(t, table, s)
			led := 0 // of all elements, those that lead to chains
			for _, f := range families {
				classes, err := table.listClasses(f)
				if led += len(classes); err != nil {
					t.Fatal(err)
				}
			}
			if want := strings.Count(text, "\n:KUBE-LB-"); led != want {
				t.Errorf("%d elements lead to chains, want one for each of %d", led, want)
			}
			other := parsed(t, strings.NewReplacer("goto KUBE-LB-2", "goto KUBE-LB-T", ".2:8080", ".3:8080",
				":KUBE-LB-2 - [0:0]\n", "", "-A KUBE-LB-2 -j DNAT --map KUBE-SLOTS dst,dst --random 2\n", "",
				"-A KUBE-LB-2 -j DNAT --map KUBE-6-SLOTS dst,dst --random 2\n", "").Replace(text))
			apply(t, table, other)
			apply(t, table, s)
			apply(t, table, kernel.State{})
		})
	}
}
