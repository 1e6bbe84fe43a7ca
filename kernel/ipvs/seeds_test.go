package ipvs

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// seeds has the answers of a real kernel with the tables of mixed, one a line in hexadecimal.
//
//	go test -exec "$PWD/bin/guest run --out $PWD/kernel/ipvs/testdata/6.1 --" -run Seeds ./kernel/ipvs -args -seeds
const seeds = "testdata/6.1"

var writeSeeds = flag.Bool("seeds", false, "write the kernel's answers to $SVCPROXY_GUEST_OUT")

func TestKernelSeeds(t *testing.T) {
	if !*writeSeeds {
		return
	}
	table := open(t)
	virtuals, reals := mixed()
	apply(t, table, additions(virtuals, reals)...)
	kerneltest.Run(t, "ipvsadm", "-A", "-f", "7", "-s", "rr")
	kerneltest.Run(t, "ipvsadm", "-A", "-f", "8", "-6", "-s", "rr")
	kerneltest.Run(t, "ipvsadm", "-a", "--sctp-service", "10.96.0.11:7", "-r", "[fd01::1]:80", "-i", "-w", "5")

	write := func(name string, answers ...[]byte) {
		var b strings.Builder
		for _, a := range answers {
			fmt.Fprintf(&b, "%x\n", a)
		}
		if err := os.WriteFile(filepath.Join(os.Getenv("SVCPROXY_GUEST_OUT"), name), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dump := func(put func()) (answers [][]byte) {
		table.batch.Reset()
		put()
		err := table.conn.Dump(&table.batch, nil, func(p []byte) error {
			answers = append(answers, slices.Clone(p))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return answers
	}
	write("services.hex", dump(func() {
		table.batch.Begin(table.family, 0)
		table.batch.Genl(cmdGetService, familyVersion)
		table.batch.End()
	})...)
	last := virtuals[len(virtuals)-1]
	write("dests.hex", dump(func() { putVirtualKey(&table.batch, table.family, cmdGetDest, last.Key) })...)

	table.opt.services = 8
	if _, err := table.opt.readServices(table.names); err != nil {
		t.Fatal(err)
	}
	write("get-services.hex", table.opt.buf)
	if _, err := table.opt.readDests(virtuals[3].Key, 4); err != nil {
		t.Fatal(err)
	}
	write("get-dests.hex", table.opt.buf)
	text, err := os.ReadFile("/proc/thread-self/net/ip_vs")
	if err != nil {
		t.Fatal(err)
	}
	write("proc.hex", text)
}

// answers reads a file of seeds.
func answers(t testing.TB, name string) (all [][]byte) {
	t.Helper()
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the kernel's answers are from a little-endian machine")
	}
	text, err := os.ReadFile(filepath.Join(seeds, name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		p, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// withMarks adds the virtual servers by firewall mark that the seeds have, in order.
func withMarks(virtuals []kernel.Virtual) []kernel.Virtual {
	seven, eight := virtual(kernel.TCP, "0.0.0.7:0", "rr"), virtual(kernel.TCP, "[::8]:0", "rr")
	seven.Key, eight.Key = kernel.MarkKey(kernel.IPv4, 7), kernel.MarkKey(kernel.IPv6, 8)
	all := append(slices.Clone(virtuals), seven, eight)
	slices.SortFunc(all, kernel.Virtual.Compare)
	return all
}

func TestDecodeServiceMessages(t *testing.T) {
	virtuals, _ := mixed()
	var got []kernel.Virtual
	for _, p := range answers(t, "services.hex") {
		s, err := decodeService(p, names{})
		if err != nil {
			t.Fatal(err)
		}
		if ipv4(p) != (s.family == kernel.IPv4) {
			t.Errorf("%v: taken for the other family", s.Key)
		}
		got = append(got, s.Virtual)
	}
	slices.SortFunc(got, func(a, b kernel.Virtual) int { return a.Key.Compare(b.Key) })
	equal(t, "virtuals", got, withMarks(virtuals))
}

func TestDecodeDestMessages(t *testing.T) {
	virtuals, reals := mixed()
	last := virtuals[len(virtuals)-1]
	var got []kernel.Real
	for _, p := range answers(t, "dests.hex") {
		d, err := decodeDest(p, last.Key)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, d.Real)
	}
	slices.SortFunc(got, func(a, b kernel.Real) int { return a.Key.Compare(b.Key) })
	equal(t, "reals", got, reals[len(reals)-6:])
}

func TestDecodeGetsockopt(t *testing.T) {
	virtuals, reals := mixed()
	var got []kernel.Virtual
	counts := map[kernel.VirtualKey]int{}
	for _, s := range decodeServices(answers(t, "get-services.hex")[0], names{}) {
		got = append(got, s.Virtual)
		counts[s.Key] = s.reals
	}
	slices.SortFunc(got, func(a, b kernel.Virtual) int { return a.Key.Compare(b.Key) })
	equal(t, "virtuals", got, withMarks(virtuals[:4])[:5])
	// There is one more real server than getsockopt lists: the one at an IPv6 address.
	if counts[virtuals[3].Key] != 4 {
		t.Errorf("%v real servers", counts)
	}
	var there []kernel.Real
	for _, d := range decodeDests(nil, answers(t, "get-dests.hex")[0], virtuals[3].Key) {
		there = append(there, d.Real)
	}
	slices.SortFunc(there, func(a, b kernel.Real) int { return a.Key.Compare(b.Key) })
	equal(t, "reals", there, reals[3:6])
}

func TestParseProc(t *testing.T) {
	virtuals, reals := mixed()
	p, err := parseProc(bytes.NewReader(answers(t, "proc.hex")[0]), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []kernel.Real
	for _, v := range virtuals {
		all, ok := p.get(v.Key)
		if ok != (v.Key.Family() == kernel.IPv6) {
			t.Errorf("%v: in the text: %v", v.Key, ok)
		}
		for _, d := range all {
			got = append(got, d.Real)
		}
	}
	slices.SortFunc(got, func(a, b kernel.Real) int { return a.Key.Compare(b.Key) })
	equal(t, "reals", got, reals[6:])
}

func TestParseProcOfBothFamilies(t *testing.T) {
	virtuals, reals := mixed()
	p, err := parseProc(bytes.NewReader(answers(t, "proc.hex")[0]), true, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []kernel.Real
	for _, v := range virtuals {
		all, ok := p.get(v.Key)
		if !ok {
			t.Errorf("%v is not in the text", v.Key)
		}
		for _, d := range all {
			if d.Key.Addr.Addr().Is4() || v.Key.Family() == kernel.IPv6 { // the other one is by tunnel
				got = append(got, d.Real)
			}
		}
	}
	slices.SortFunc(got, func(a, b kernel.Real) int { return a.Key.Compare(b.Key) })
	equal(t, "reals", got, reals)
	if len(p.of) != len(virtuals) {
		t.Errorf("%d virtual servers, want %d", len(p.of), len(virtuals))
	}
}

func TestParseProcByHand(t *testing.T) {
	p, err := parseProc(strings.NewReader(`IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
FWM  00000007 rr
  -> 0A000001:0000      Masq    1      0          0
TCP  [fd00:0000:0000:0000:0000:0000:0000:0010]:01BB rr persistent 10800 00000040
  -> [fd01:0000:0000:0000:0000:0000:0000:0002]:1F90      Route   70000  4294967295 7
  -> 0A000001:1F90      Tunnel  3      1          2
`), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	v := virtual(kernel.TCP, "[fd00::10]:443", "")
	one, two := target(v, "[fd01::2]:8080", 70000), target(v, "10.0.0.1:8080", 3)
	one.Forward, two.Forward = kernel.Direct, kernel.Tunnel
	got, _ := p.get(v.Key)
	equal(t, "real servers", got, []dest{
		{one, kernel.Conns{Active: 4294967295, Inactive: 7}},
		{two, kernel.Conns{Active: 1, Inactive: 2}},
	})
}

func FuzzParseProc(f *testing.F) {
	f.Add(answers(f, "proc.hex")[0])
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parseProc(bytes.NewReader(text), true, 0)
		if err != nil {
			return
		}
		for _, d := range p.dests {
			if _, ok := p.of[d.Key.Virtual]; !ok || !d.Key.Addr.IsValid() {
				t.Errorf("a real server without an address, or of no virtual server: %v", d.Key)
			}
		}
		six, err := parseProc(bytes.NewReader(text), false, 0)
		for k := range six.of {
			if k.Family() != kernel.IPv6 || err != nil {
				t.Errorf("%v is not IPv6, or %v", k, err)
			}
		}
	})
}

func FuzzDecodeService(f *testing.F) {
	for _, p := range answers(f, "services.hex") {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		ipv4(p)
		if s, err := decodeService(p, names{}); err == nil && !s.Key.Addr.IsValid() {
			t.Error("a virtual server without an address")
		}
	})
}

func FuzzDecodeDest(f *testing.F) {
	for _, p := range answers(f, "dests.hex") {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if d, err := decodeDest(p, probe); err == nil && !d.Key.Addr.IsValid() {
			t.Error("a real server without an address")
		}
	})
}

func FuzzDecodeGetServices(f *testing.F) {
	f.Add(answers(f, "get-services.hex")[0])
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, s := range decodeServices(p, names{}) {
			if !s.Key.Addr.IsValid() || s.Scheduler == "" {
				t.Errorf("incomplete: %+v", s)
			}
		}
	})
}

func FuzzDecodeGetDests(f *testing.F) {
	f.Add(answers(f, "get-dests.hex")[0])
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, d := range decodeDests(nil, p, probe) {
			if !d.Key.Addr.Addr().Is4() {
				t.Errorf("not an IPv4 address: %+v", d)
			}
		}
	})
}
