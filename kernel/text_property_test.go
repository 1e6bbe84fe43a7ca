package kernel_test

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/testdata/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// Canonical text reads back to the same value.
func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world.New(t, world.Foreigners(t))
		w.Sync(world.Wanted(world.DrawTable(t, "a")))
		w.DrawConns()
		w.Sync(world.Wanted(world.DrawTable(t, "b")))
		o := w.Read()
		o.Policy = kernel.Policy{DrainTimeout: time.Minute, DeleteUnknown: true, ExcludeCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
		for _, r := range o.Reals.All() {
			if rapid.Bool().Draw(t, "cut") {
				o.Policy.Cut = append(o.Policy.Cut, r.Key)
			}
		}
		got, err := kernel.ParseObserved(o.String())
		if err != nil {
			t.Fatalf("%v in:\n%s", err, o)
		}
		if got.String() != o.String() {
			t.Fatalf("got:\n%s\nwant:\n%s", got, o)
		}
	})
}

func FuzzParseObserved(f *testing.F) {
	f.Add(world.Wanted(nil).String())
	f.Add("#: iptables\n*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -j ACCEPT\nCOMMIT\n")
	f.Add("#: ip6tables-legacy stuck\n*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n#: iptables-nft\n*filter\n:KUBE-FORWARD - [0:0]\n-A FORWARD -j KUBE-FORWARD\nCOMMIT\n")
	f.Add("-A -t 10.0.0.1:80 -s mh -p 10 -M 24 -b flag-2\n-a -t 10.0.0.1:80 -r 10.2.0.1:8080 -m -w 3 # active 1 inactive 2 persist 0\n")
	f.Add("-A -t 10.0.0.1:80 -s rr\n-a -t 10.0.0.1:80 -r 10.2.0.1:80 -i -w 3 --tun-type gue --tun-port 6080 --tun-csum\n-a -t 10.0.0.1:80 -r 10.2.0.2:80 -i --tun-type 7 --tun-remcsum\n")
	f.Add("#: mtu 9000\n")
	f.Add("--set 900 120 300\n#: saved ipvs.udpTimeout before \"300\" ours \"60\"\n")
	f.Add("#: saved net.ipv4.ip_forward before \"0\" ours \"1\"\n#: drain 2026-01-01T00:00:00Z -u [fd00::1]:53 -r [fd00::2]:53\n")
	f.Add("--start-daemon backup --mcast-interface eth1 --syncid 7 --sync-maxlen 1400 --mcast-group ff02::81 --mcast-port 8848 --mcast-ttl 1\n")
	f.Add("#: cut -t [fd00::1]:80 -r [fd00::2]:8080\n#: cut -t 10.0.0.1:80 -r 10.2.0.1:8080\n")
	f.Fuzz(func(t *testing.T, s string) {
		o, err := kernel.ParseObserved(s)
		if err != nil {
			return
		}
		again, err := kernel.ParseObserved(o.String())
		if err != nil {
			t.Fatalf("own text does not parse: %v\n%s", err, o)
		}
		if again.String() != o.String() {
			t.Fatalf("%q gives\n%s\nwhich gives\n%s", s, o, again)
		}
	})
}
