package ipset

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// message builds one message and returns its payload, from the netfilter header on.
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

// tape keeps what was sent and never answers.
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

// members decodes the entries of one message.
func members(p []byte) (got []kernel.Entry, err error) {
	err = eachMember(p, func(member []byte) error {
		e, ok, err := decodeEntry(member)
		if ok {
			got = append(got, e)
		}
		return err
	})
	return got, err
}

func TestEntriesRoundTrip(t *testing.T) {
	var want []kernel.Entry
	for _, m := range samples {
		e, err := kernel.ParseMember(m)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, e)
	}
	p := message(func(b *nl.Batch) {
		mark := beginEntries(b, kernel.Add, "KUBE-X")
		for _, e := range want {
			putEntry(b, &e)
		}
		b.EndNest(mark)
		b.End()
	})
	got, err := members(p)
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

func TestPackedOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	address := func() netip.Addr {
		return netip.AddrFrom4([4]byte{byte(10 + rnd.IntN(2)), 0, byte(rnd.IntN(3)), byte(rnd.IntN(256))})
	}
	var want []kernel.Entry
	var all, spare []packed
	for range 3000 {
		e := kernel.Entry{Set: "KUBE-X", Addr: address(), Proto: kernel.TCP, Port: uint16(rnd.IntN(3))}
		if rnd.IntN(2) > 0 {
			e.Second = netip.PrefixFrom(address(), 24+rnd.IntN(9)).Masked()
		}
		want = append(want, e)
		all = append(all, pack(&e))
	}
	slices.SortFunc(want, kernel.Entry.Compare)
	all, _ = sortPacked(all, spare)
	for i, p := range all {
		if got := p.entry("KUBE-X"); got != want[i] {
			t.Fatalf("entry %d is %v, want %v", i, got, want[i])
		}
	}
}

func TestHashSize(t *testing.T) {
	for entries, want := range map[uint32]uint32{
		0: 512, 256: 512, 512: 1024, 1000: 1024, 65536: 131072, 1 << 20: maxHashSize, 1 << 30: maxHashSize, 1<<32 - 1: maxHashSize,
	} {
		if got := hashSize(entries); got != want {
			t.Errorf("%d entries: %d buckets, want %d", entries, got, want)
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

func packLearned(member []byte) (packed, bool) {
	s := learn(member)
	return s.pack(member)
}

func TestShape(t *testing.T) {
	p := message(func(b *nl.Batch) {
		mark := beginEntries(b, kernel.Add, "KUBE-X")
		for _, m := range samples {
			e, _ := kernel.ParseMember(m)
			putEntry(b, &e)
		}
		b.EndNest(mark)
		b.End()
	})
	var fast []string
	err := eachMember(p, func(member []byte) error {
		e, _, err := decodeEntry(member)
		if s := learn(member); s.size == 0 && e.Addr.IsValid() || s.size > 0 && s.canonical(member) != canonical(&e) {
			t.Errorf("by its shape %v is %x, by its attributes %x", e, s.canonical(member), canonical(&e))
		}
		if p, ok := packLearned(member); ok {
			fast = append(fast, p.entry("").Member())
			if p.entry("") != e {
				t.Errorf("by its shape the entry is %v, by its attributes %v", p.entry(""), e)
			}
		}
		return err
	})
	want := slices.DeleteFunc(slices.Clone(samples), func(m string) bool { return !strings.Contains(m, ".") })
	if err != nil || !slices.Equal(fast, want) {
		t.Errorf("read by shape: %q and %v, want %q", fast, err, want)
	}
}

// FuzzDecode decodes any bytes as a listing: no panic, and a decoded entry can be encoded and
// decoded again.
func FuzzDecode(f *testing.F) {
	f.Add(message(func(b *nl.Batch) {
		mark := beginEntries(b, kernel.Add, "KUBE-CLUSTER-IP")
		for _, m := range samples {
			e, _ := kernel.ParseMember(m)
			putEntry(b, &e)
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
		eachMember(p, func(member []byte) error {
			e, ok, err := decodeEntry(member)
			if err != nil || !ok {
				return err
			}
			if e.Addr.IsValid() && e.Second.IsValid() && e.Second.Bits() > e.Second.Addr().BitLen() {
				t.Fatalf("entry %v", e)
			}
			if p, ok := packLearned(member); ok && p != pack(&e) {
				t.Fatalf("by its shape the entry is %v, by its attributes %v", p.entry(""), e)
			}
			if s := learn(member); s.size > 0 && s.canonical(member) != canonical(&e) {
				t.Fatalf("by its shape %v is %x, by its attributes %x", e, s.canonical(member), canonical(&e))
			}
			_ = e.Member()
			return nil
		})
	})
}
