package ipset

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// message builds one message and gives its payload, from the netfilter header.
func message(put func(b *nl.Batch)) []byte {
	var sent []byte
	d := nl.Dialer{Wrap: func(_ int, t nl.Transport) nl.Transport { return tape{t, &sent} }}
	c, err := d.Dial(unix.NETLINK_NETFILTER)
	if err != nil {
		panic(err)
	}
	defer c.Close()
	var b nl.Batch
	put(&b)
	c.Send(&b)
	return sent[unix.SizeofNlMsghdr:]
}

// tape keeps what was sent and answers nothing.
type tape struct {
	nl.Transport
	sent *[]byte
}

func (t tape) Send(p []byte) error         { *t.sent = slices.Clone(p); return nil }
func (t tape) Receive([]byte) (int, error) { return 0, nl.ErrTimeout }

var samples = []string{
	"10.96.0.20,tcp:80", "fd00:96::20,udp:53", "10.2.1.10,tcp:8080,10.2.1.10", "fd00::1,sctp:1,fd00::1",
	"192.0.2.1,tcp:443,198.51.100.0/24", "2001:db8::1,tcp:443,2001:db8:7::/48", "10.96.0.20", "fd00::9", "30080", "0",
}

func TestEntriesRoundTrip(t *testing.T) {
	var want []kernel.Entry
	for _, m := range samples {
		e, err := kernel.ParseMember(m)
		if err != nil {
			t.Fatal(err)
		}
		e.Set = "KUBE-X"
		want = append(want, e)
	}
	p := message(func(b *nl.Batch) {
		mark := beginEntries(b, kernel.Add, "KUBE-X")
		for _, e := range want {
			putEntry(b, e)
		}
		b.EndNest(mark)
		b.End()
	})
	got, err := decodeMembers(p, "KUBE-X", nil)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v and %v, want %v", got, err, want)
	}
}

func TestHeadRoundTrip(t *testing.T) {
	for _, want := range []kernel.Set{
		{Name: "KUBE-CLUSTER-IP", Type: kernel.HashIPPort, Family: kernel.IPv4, MaxElem: 4096},
		{Name: "KUBE-6-IPVS-IPS", Type: kernel.HashIP, Family: kernel.IPv6, MaxElem: 1024},
		{Name: "KUBE-6-NODE-PORT-TCP", Type: kernel.BitmapPort, Family: kernel.IPv6},
	} {
		p := message(func(b *nl.Batch) { putCreate(b, want) })
		h, err := decodeHead(p, kernel.DefaultNames)
		if err != nil || h.set != want {
			t.Errorf("got %+v and %v, want %v", h, err, want)
		}
	}
}

func TestSortEntries(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, v6 := range []bool{false, true} {
		got := make([]kernel.Entry, 3000)
		for i := range got {
			a := netip.AddrFrom4([4]byte{10, 0, byte(rnd.IntN(3)), byte(rnd.IntN(256))})
			if v6 {
				a = netip.AddrFrom16(a.As16())
			}
			got[i] = kernel.Entry{Set: "KUBE-X", Addr: a, Proto: kernel.TCP, Port: uint16(rnd.IntN(3)), Second: netip.PrefixFrom(a, 24+rnd.IntN(9))}
		}
		want := slices.Clone(got)
		slices.SortFunc(want, kernel.Entry.Compare)
		sortEntries(got)
		if !slices.Equal(got, want) {
			t.Errorf("IPv6 %v: the order is not kernel.Entry's", v6)
		}
	}
}

func TestHashSize(t *testing.T) {
	for maxElem, want := range map[uint32]uint32{
		1: 64, 128: 64, 130: 128, 1024: 512, 1500: 1024, 65536: 32768, 1 << 30: maxHashSize, 1<<32 - 1: maxHashSize,
	} {
		if got := hashSize(maxElem); got != want {
			t.Errorf("maxelem %d: %d buckets, want %d", maxElem, got, want)
		}
	}
}

func TestModule(t *testing.T) {
	for set, want := range map[kernel.SetType]string{kernel.HashIPPortNet: "ip_set_hash_ipportnet", kernel.BitmapPort: "ip_set_bitmap_port", kernel.HashIP: "ip_set_hash_ip"} {
		if got := module(set); got != want {
			t.Errorf("%s is in %s, want %s", set, got, want)
		}
	}
}

// FuzzDecode feeds any bytes as a listing: no panic, and an entry that is read
// is one that can be written and read again.
func FuzzDecode(f *testing.F) {
	f.Add(message(func(b *nl.Batch) {
		mark := beginEntries(b, kernel.Add, "KUBE-CLUSTER-IP")
		for _, m := range samples {
			e, _ := kernel.ParseMember(m)
			putEntry(b, e)
		}
		b.EndNest(mark)
		b.End()
	}))
	f.Add(message(func(b *nl.Batch) {
		putCreate(b, kernel.Set{Name: "KUBE-CLUSTER-IP", Type: kernel.HashIPPort, Family: kernel.IPv4, MaxElem: 9})
	}))
	f.Add(message(func(b *nl.Batch) {
		putCreate(b, kernel.Set{Name: "KUBE-NODE-PORT-TCP", Type: kernel.BitmapPort, Family: kernel.IPv4})
	}))
	f.Fuzz(func(t *testing.T, p []byte) {
		h, err := decodeHead(p, kernel.DefaultNames)
		if err == nil && h.set.Name != "" && !kernel.DefaultNames.OwnsSet(h.set.Name) {
			t.Fatalf("read %q, which is not ours", h.set.Name)
		}
		got, err := decodeMembers(p, "KUBE-X", nil)
		if err != nil {
			return
		}
		for _, e := range got {
			if e.Addr.IsValid() && e.Second.IsValid() && e.Second.Bits() > e.Second.Addr().BitLen() {
				t.Fatalf("entry %v", e)
			}
			_ = e.Member()
		}
	})
}
