package dns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

func clientOf(s ...*server) *client {
	return &client{servers: func() (all []netip.AddrPort) {
		for _, one := range s {
			all = append(all, one.addr)
		}
		return all
	}}
}

func addrs(list []sources.NameAddress) (text []string) {
	for _, a := range list {
		text = append(text, a.Addr.String())
	}
	return text
}

// TestAnswers: what servers say, and what attackers do.
func TestAnswers(t *testing.T) {
	many := func(n int) (all []dnsmessage.Resource) {
		for i := range n {
			all = append(all, a("app.example", fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250), 30))
		}
		return all
	}
	forged := func(change func(*dnsmessage.Message)) func(dnsmessage.Message, bool) [][]byte {
		return func(m dnsmessage.Message, _ bool) [][]byte {
			bad := m
			bad.Questions = slices.Clone(m.Questions)
			change(&bad)
			return [][]byte{packed(bad, 0, a("app.example", "192.0.2.66", 60)), packed(m, 0, a("app.example", "10.1.0.1", 60))}
		}
	}
	raw := func(change func([]byte) []byte) func(dnsmessage.Message, bool) [][]byte {
		return func(m dnsmessage.Message, _ bool) [][]byte {
			return [][]byte{change(packed(m, 0, a("app.example", "10.1.0.1", 60)))}
		}
	}
	for what, c := range map[string]struct {
		answer func(dnsmessage.Message, bool) [][]byte
		want   string
		err    string
		bad    uint64
	}{
		"one address":   {answer: zone(a("app.example", "10.1.0.1", 60)), want: "10.1.0.1"},
		"capitals":      {answer: zone(a("App.Example", "10.1.0.1", 60)), want: "10.1.0.1"},
		"no such name":  {answer: zone(), err: "NXDOMAIN"},
		"no address":    {answer: zone(a("app.example", "2001:db8::1", 60)), err: "has no address"},
		"alias":         {answer: zone(cname("app.example", "b.example", 5), a("b.example", "10.1.0.2", 60)), want: "10.1.0.2"},
		"alias of none": {answer: zone(cname("app.example", "b.example", 5)), err: "NXDOMAIN"},
		"loop":          {answer: zone(cname("app.example", "b.example", 5), cname("b.example", "app.example", 5)), err: "loop"},
		"alias to self": {answer: zone(cname("app.example", "app.example", 5)), err: "loop"},
		"of other names": {answer: func(m dnsmessage.Message, _ bool) [][]byte {
			return [][]byte{packed(m, 0, a("bank.example", "192.0.2.66", 60), a("app.example", "10.1.0.1", 60))}
		}, want: "10.1.0.1"},
		"truncated": {answer: zone(many(200)...), want: fmt.Sprint(200)},
		"10,000 records": {answer: func(m dnsmessage.Message, tcp bool) [][]byte {
			if m.Truncated = !tcp; !tcp {
				return [][]byte{packed(m, 0)}
			}
			return [][]byte{packed(m, 0, many(3900)...)}
		}, err: "more than 1000 records"},
		"claims 10,000": {answer: raw(func(b []byte) []byte { b[6], b[7] = 0x27, 0x10; return b }), err: "malformed"},
		"pointer loop": {answer: raw(func(b []byte) []byte {
			b[len(b)-16], b[len(b)-15] = 0xc0, byte(len(b)-16)
			return b
		}), err: "malformed"},
		"half":          {answer: raw(func(b []byte) []byte { return b[:len(b)-3] }), err: "malformed"},
		"other id":      {answer: forged(func(m *dnsmessage.Message) { m.ID++ }), want: "10.1.0.1", bad: 1},
		"other name":    {answer: forged(func(m *dnsmessage.Message) { m.Questions[0].Name = name("evil.example") }), want: "10.1.0.1", bad: 1},
		"other type":    {answer: forged(func(m *dnsmessage.Message) { m.Questions[0].Type = dnsmessage.TypeMX }), want: "10.1.0.1", bad: 1},
		"two questions": {answer: forged(func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) }), want: "10.1.0.1", bad: 1},
		"no question":   {answer: forged(func(m *dnsmessage.Message) { m.Questions = nil }), want: "10.1.0.1", bad: 1},
		"a flood": {answer: func(m dnsmessage.Message, _ bool) (all [][]byte) {
			for range 100 {
				m.ID++
				all = append(all, packed(m, 0, a("app.example", "192.0.2.66", 60)))
			}
			return all
		}, err: "32 messages came", bad: 64},
		"refused": {answer: func(m dnsmessage.Message, _ bool) [][]byte { return [][]byte{packed(m, dnsmessage.RCodeRefused)} }, err: "Refused"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cl := clientOf(newServer(t, c.answer))
			got, err := cl.resolve(t.Context(), Key{Host: "app.example"})
			text := strings.Join(addrs(got.addresses), " ")
			if len(got.addresses) > 10 {
				text = fmt.Sprint(len(got.addresses))
			}
			if text != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q, %v; want %q, %q", text, err, c.want, c.err)
			}
			if bad := cl.bad.Load(); bad != c.bad {
				t.Errorf("%d bad messages, want %d", bad, c.bad)
			}
		})
	}
}

// TestSecondServer: a silent server, and one that is not there, delay an answer and prevent none.
func TestSecondServer(t *testing.T) {
	silent := newServer(t, func(dnsmessage.Message, bool) [][]byte { return nil })
	failing := newServer(t, func(m dnsmessage.Message, _ bool) [][]byte {
		return [][]byte{packed(m, dnsmessage.RCodeServerFailure)}
	})
	good := newServer(t, zone(a("app.example", "10.1.0.1", 60)))
	c := clientOf(silent, failing, good)
	servers := c.servers
	c.servers = func() []netip.AddrPort {
		return append([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}, servers()...)
	}
	got, err := c.resolve(t.Context(), Key{Host: "app.example"})
	if err != nil || !slices.Equal(addrs(got.addresses), []string{"10.1.0.1"}) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestSilentServer: a server that is silent delays one question each retryAfter, and is asked first when it answers again.
func TestSilentServer(t *testing.T) {
	silent := newServer(t, func(dnsmessage.Message, bool) [][]byte { return nil })
	good := newServer(t, zone(a("app.example", "10.1.0.1", 60)))
	c := clientOf(silent, good)
	for range 20 {
		if got, err := c.resolve(t.Context(), Key{Host: "app.example"}); err != nil || len(got.addresses) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if silent.count() != 1 {
		t.Errorf("the silent server was asked %d times, want 1", silent.count())
	}
	later := time.Now().Add(retryAfter)
	for i, want := range [][]netip.AddrPort{{silent.addr, good.addr}, {good.addr, silent.addr}} {
		if got := c.order(c.servers(), later); !slices.Equal(got, want) {
			t.Errorf("question %d: %v, want %v", i, got, want)
		}
	}
	c.heard(silent.addr, errors.New("ServerFailure"), later)
	if got := c.order(c.servers(), later); got[0] != silent.addr {
		t.Errorf("%v: want first the one that answers again", got)
	}
}

// TestSRV: priority is the tier, and targets are resolved.
func TestSRV(t *testing.T) {
	s := newServer(t, zone(srv("_web._tcp.example", "a.example", 8080, 10, 3), srv("_web._tcp.example", "b.example", 8081, 20, 0),
		srv("_web._tcp.example", "gone.example", 8082, 10, 1), a("a.example", "10.1.0.1", 7), a("b.example", "10.1.0.2", 60)))
	got, err := clientOf(s).resolve(t.Context(), Key{Host: "_web._tcp.example", SRV: true})
	want := []sources.NameAddress{{Addr: netip.MustParseAddr("10.1.0.1"), Port: 8080, Weight: 3},
		{Addr: netip.MustParseAddr("10.1.0.2"), Port: 8081, Backup: true}}
	if err != nil || !slices.Equal(got.addresses, want) || got.ttl != 7*time.Second {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

var policy = Policy{time.Second, 5 * time.Minute, time.Hour, 5 * time.Minute}

// TestPolicy walks one name through its life.
func TestPolicy(t *testing.T) {
	start := time.Unix(1e9, 0)
	good := func(ttl time.Duration, text ...string) func() (answer, error) {
		return func() (answer, error) {
			r := answer{ttl: ttl}
			for _, s := range text {
				r.addresses = append(r.addresses, sources.NameAddress{Addr: netip.MustParseAddr(s)})
			}
			return r, nil
		}
	}
	fails := func(err error) func() (answer, error) { return func() (answer, error) { return answer{}, err } }
	servfail := fails(errors.New("SERVFAIL"))
	var e entry
	for i, step := range []struct {
		at      time.Duration
		outcome func() (answer, error)
		want    string
		due     time.Duration // after at
		changed bool
	}{
		{0, servfail, "", time.Second, true},
		{time.Second, servfail, "", 2 * time.Second, false},
		{3 * time.Second, good(0, "10.0.0.2", "10.0.0.1"), "10.0.0.1 10.0.0.2", time.Second, true},
		{4 * time.Second, good(time.Hour, "10.0.0.1", "10.0.0.2", "10.0.0.1"), "10.0.0.1 10.0.0.2", 5 * time.Minute, false},
		{10 * time.Second, fails(errNone), "10.0.0.1 10.0.0.2", time.Second, true},
		{11 * time.Second, servfail, "10.0.0.1 10.0.0.2", 2 * time.Second, true},
		{20 * time.Second, good(time.Minute), "10.0.0.1 10.0.0.2", 4 * time.Second, true},
		{319 * time.Second, good(time.Minute), "10.0.0.1 10.0.0.2", time.Second, false}, // the end of the grace
		{320 * time.Second, fails(errNone), "", 16 * time.Second, true},
		{time.Hour, good(10*time.Second, "10.0.0.3"), "10.0.0.3", 10 * time.Second, true},
		{2*time.Hour - time.Second, servfail, "10.0.0.3", time.Second, true},
		{2 * time.Hour, servfail, "10.0.0.3", 2 * time.Second, true}, // stale
		{2*time.Hour + 2*time.Second, servfail, "10.0.0.3", 4 * time.Second, false},
		{3 * time.Hour, fails(errNone), "10.0.0.3", 8 * time.Second, true},
		{3*time.Hour + 5*time.Minute, fails(errNone), "", 16 * time.Second, true},
	} {
		now := start.Add(step.at)
		r, err := step.outcome()
		next, changed := e.after(r, err, now, policy)
		if got := strings.Join(addrs(next.Addresses), " "); got != step.want || changed != step.changed ||
			next.due.Sub(now) != step.due {
			t.Errorf("step %d: %q, changed %t, due in %v; want %q, %t, %v", i, got, changed, next.due.Sub(now), step.want,
				step.changed, step.due)
		}
		e = next
	}
	r, _ := good(time.Minute)()
	for i := range 100 {
		r.addresses = append(r.addresses, sources.NameAddress{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})})
	}
	if next, _ := e.after(r, nil, start, policy); len(next.Addresses) != sources.MostAddresses || next.Cut != 36 {
		t.Errorf("of 100 addresses %d are used, and %d cut", len(next.Addresses), next.Cut)
	}
}

// TestLostTarget: a target of SRV records that loses its addresses has them for the grace, and is said.
func TestLostTarget(t *testing.T) {
	start, k := time.Unix(1e9, 0), Key{Host: "_web._tcp.example", SRV: true}
	records := []dnsmessage.Resource{srv(k.Host, "a.example", 80, 1, 1), srv(k.Host, "b.example", 81, 1, 1),
		srv(k.Host, "b.example", 82, 1, 1), a("a.example", "10.1.0.1", 60)}
	s := newServer(t, nil)
	c := clientOf(s)
	b := a("b.example", "10.1.0.2", 60)
	var e entry
	for i, step := range []struct {
		at    time.Duration
		there bool
		want  int
		said  string
		due   time.Duration
	}{
		{0, false, 1, "target b.example: does not exist (NXDOMAIN): has no address: it is left out", 30 * time.Second},
		{time.Minute, true, 3, "", time.Minute},
		{2 * time.Minute, false, 3, "target b.example: does not exist (NXDOMAIN): has no address: its last addresses are used until " +
			start.Add(7*time.Minute).Local().Format("15:04"), 30 * time.Second},
		{7*time.Minute - 10*time.Second, false, 3, "used until", 10 * time.Second},
		{7 * time.Minute, false, 1, "left out", 30 * time.Second},
		{8 * time.Minute, true, 3, "", time.Minute},
	} {
		s.set(zone(records...))
		if step.there {
			s.set(zone(append(slices.Clone(records), b)...))
		}
		r, err := c.resolve(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		now := start.Add(step.at)
		e, _ = e.after(r, err, now, policy)
		said := strings.Join(e.Lost, "\n")
		if len(e.Addresses) != step.want || !strings.Contains(said, step.said) || (said == "") != (step.said == "") ||
			e.due.Sub(now) != step.due {
			t.Errorf("step %d: %v, %q, due in %v; want %d, %q, %v", i, e.Addresses, said, e.due.Sub(now), step.want, step.said,
				step.due)
		}
	}
	_, problems := Resolve(table(t, `{ srv = "_web._tcp.example" }`), []int{0}, func(Key) (Known, bool) {
		return Known{Addresses: e.Addresses, Lost: []string{"target x: is lost"}}, true
	})
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), "backend SRV _web._tcp.example: target x: is lost") {
		t.Errorf("%q", problems)
	}
}

// TestTargetName: what no host is called is not asked for, and said without its control characters.
func TestTargetName(t *testing.T) {
	k := Key{Host: "_web._tcp.example", SRV: true}
	for what, records := range map[string][]dnsmessage.Resource{
		"with another": {srv(k.Host, "x\x1b[2J.example", 80, 1, 1), srv(k.Host, "a.example", 80, 1, 1), a("a.example", "10.1.0.1", 60)},
		"alone":        {srv(k.Host, "x\x1b[2J.example", 80, 1, 1)},
	} {
		s := newServer(t, zone(records...))
		r, err := clientOf(s).resolve(t.Context(), k)
		e, _ := entry{}.after(r, err, time.Now(), policy)
		said := strings.Join(e.Lost, "\n") + e.Why
		if !strings.Contains(said, `target "x\x1b[2j.example" is not a DNS name`) || strings.Contains(said, "\x1b") ||
			s.count() != len(records)-len(e.Addresses) {
			t.Errorf("%s: %q, %d questions", what, said, s.count())
		}
	}
}

// TestStale: an answer that is over while servers fail counts for a service, and a family, that has nothing else.
func TestStale(t *testing.T) {
	now := time.Now()
	known := map[Key]Known{
		{Host: "a.example"}: {Addresses: []sources.NameAddress{{Addr: netip.MustParseAddr("10.1.0.1")}}, Stale: true,
			Why: "SERVFAIL", Good: now},
		{Host: "b.example"}: {Addresses: []sources.NameAddress{{Addr: netip.MustParseAddr("10.1.0.2")}}, Why: "SERVFAIL",
			Good: now, Until: now.Add(time.Hour)},
		{Host: "c.example"}: {Why: "NXDOMAIN"},
	}
	for backends, want := range map[string]struct {
		endpoints int
		said      string
	}{
		`"a.example:80"`:                 {1, "a.example: SERVFAIL: the last good answer is used, of " + now.Format("2006-01-02 15:04") + ": the service has no other"},
		`"a.example:80", "c.example:80"`: {1, "a.example: SERVFAIL: the last good answer is used, of"},
		`"a.example:80", "10.1.0.9:80"`:  {1, "a.example: SERVFAIL: the last good answer, of " + now.Format("2006-01-02 15:04") + ", counts no longer: it stands for no endpoint"},
		`"a.example:80", "b.example:80"`: {1, "a.example: SERVFAIL: the last good answer, of"},
		`"b.example:80"`:                 {1, "b.example: SERVFAIL: the last good answer is used until " + now.Add(time.Hour).Format("15:04")},
	} {
		got, problems := Resolve(table(t, backends), []int{0}, func(k Key) (Known, bool) { return known[k], true })
		if all := fmt.Sprint(problems); len(got.Services.At(0).Endpoints) != want.endpoints || !strings.Contains(all, want.said) {
			t.Errorf("%s: %v, %s", backends, got.Services.At(0).Endpoints, all)
		}
	}
}

// tables is a source of one table.
type tables chan sources.Table

func (s tables) Watch(ctx context.Context, emit func(sources.Table, error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case t := <-s:
			emit(t, nil)
		}
	}
}

// watched is a Source that runs, with the endpoints of the last table.
type watched struct {
	names *Names
	in    tables
	mu    sync.Mutex
	last  []string
	first []string
	empty int // tables in which the first service had no endpoint
	stop  func()
}

func watch(t *testing.T, o Options) *watched {
	w := &watched{names: New(o), in: make(tables)}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	w.stop = func() { stop(); running.Wait() }
	t.Cleanup(w.stop)
	running.Go(func() { w.names.Run(ctx) })
	running.Go(func() {
		w.names.Of(w.in).Watch(ctx, func(got sources.Table, _ error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.last = nil
			if len(got.Services.At(0).Endpoints) == 0 {
				w.empty++
			}
			for _, e := range got.Services.At(0).Endpoints {
				w.last = append(w.last, sources.Place(e.Name.Text(), netip.AddrPortFrom(e.Addr, e.Ports[0].Port).String()))
			}
			if w.first == nil {
				w.first = w.last
			}
		})
	})
	return w
}

func (w *watched) want(t *testing.T, endpoints ...string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		w.mu.Lock()
		last := slices.Clone(w.last)
		w.mu.Unlock()
		if slices.Equal(last, endpoints) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%q, want %q; %q", last, endpoints, w.names.Warnings())
		}
	}
}

func table(t testing.TB, backends string) sources.Table {
	got, _, problems := file.Decode("s.toml", []byte("[services.web]\nvips = [\"192.0.2.1\"]\nport = 80\nbackends = ["+backends+"]\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return got
}

// TestSource: a table waits for its names, follows them, and keeps what they stood for.
func TestSource(t *testing.T) {
	s := newServer(t, zone(a("app.example", "10.1.0.1", 1), a("app.example", "127.0.0.1", 1)))
	o := Options{Policy: policy, Servers: []netip.AddrPort{s.addr}, Keep: filepath.Join(t.TempDir(), FileName)}
	w := watch(t, o)
	w.in <- table(t, `"10.1.0.9:8080", "app.example:8080", { name = "none.example", port = 1 }`)
	w.want(t, "app.example (10.1.0.1:8080)", "10.1.0.9:8080")
	if len(w.first) != 2 {
		t.Errorf("the first table has %q: it did not wait for all names", w.first)
	}
	for _, want := range []string{"127.0.0.1 is a loopback address", "none.example: does not exist"} {
		if all := strings.Join(w.names.Warnings(), "\n"); !strings.Contains(all, want) {
			t.Errorf("no warning %q in %q", want, all)
		}
	}
	s.set(zone(a("app.example", "10.1.0.9", 1), a("app.example", "10.1.0.2", 1)))
	w.want(t, "app.example (10.1.0.2:8080)", "10.1.0.9:8080") // the one that is written stays
	s.set(func(m dnsmessage.Message, _ bool) [][]byte { return [][]byte{packed(m, dnsmessage.RCodeServerFailure)} })
	for end := time.Now().Add(20 * time.Second); !strings.Contains(strings.Join(w.names.Warnings(), "\n"), "the last good"); {
		if time.Now().After(end) {
			t.Fatalf("SERVFAIL is not said: %q", w.names.Warnings())
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.want(t, "app.example (10.1.0.2:8080)", "10.1.0.9:8080")
	w.stop()
	w = watch(t, o)
	w.in <- table(t, `"app.example:8080"`)
	w.want(t, "app.example (10.1.0.2:8080)", "app.example (10.1.0.9:8080)")
	w.in <- table(t, `"10.1.0.9:8080"`)
	w.want(t, "10.1.0.9:8080")
	if got := w.names.Warnings(); len(got) > 0 {
		t.Errorf("warnings of names that are gone: %q", got)
	}
}

// TestChangedName: while a table waits for its new names, the last one keeps its own.
func TestChangedName(t *testing.T) {
	known := zone(a("a.example", "10.1.0.1", 60), a("b.example", "10.1.0.2", 60))
	s := newServer(t, func(m dnsmessage.Message, tcp bool) [][]byte {
		if m.Questions[0].Name.String() == "c.example." {
			return nil
		}
		return known(m, tcp)
	})
	w := watch(t, Options{Policy: policy, Servers: []netip.AddrPort{s.addr}})
	w.in <- table(t, `"a.example:8080"`)
	w.want(t, "a.example (10.1.0.1:8080)")
	w.in <- table(t, `"10.1.0.9:8080"]
[services.zweb]
vips = ["192.0.2.2"]
port = 80
backends = ["b.example:8080", "c.example:8080"`)
	w.want(t, "10.1.0.9:8080")
	if w.empty > 0 {
		t.Errorf("web was without endpoints in %d tables", w.empty)
	}
	if _, known := w.names.entries[Key{Host: "a.example"}]; known {
		t.Error("a.example is still asked for")
	}
}

// TestMostNames: names over the limit are said, and asked for when there is room. Kept answers take none.
func TestMostNames(t *testing.T) {
	n := New(Options{Policy: policy})
	files, static := n.Of(nil), n.Of(nil)
	for i := range mostNames {
		n.entries[Key{Host: fmt.Sprintf("kept%d.example", i)}] = &entry{}
	}
	over, stop := context.WithCancel(t.Context())
	stop() // want does not wait
	var keys []Key
	for i := range mostNames + 2 {
		keys = append(keys, Key{Host: fmt.Sprintf("n%05d.example", i)})
	}
	last := fmt.Sprintf("n%05d.example", mostNames)
	said := func() string {
		_, problems := Resolve(table(t, `"`+last+`:80"`), []int{0}, n.Lookup)
		return problems[0].Error()
	}
	n.want(over, files, keys, nil)
	n.wantOnly(files, keys)
	if got := said(); !strings.Contains(got, "backend "+last+": is not asked for: 10000 names are the most") {
		t.Error(got)
	}
	if want := 2 * mostNames; len(n.entries) != want {
		t.Errorf("%d names before each source had a table, want %d", len(n.entries), want)
	}
	n.wantOnly(static, nil)
	n.want(over, files, keys[2:], nil)
	n.wantOnly(files, keys[2:])
	if got := said(); !strings.Contains(got, "is not resolved yet") || len(n.entries) != mostNames {
		t.Errorf("%d names, %s", len(n.entries), got)
	}
}

// TestKeptIsChecked: what is in stateDir is not trusted.
func TestKeptIsChecked(t *testing.T) {
	now := time.Unix(2e9, 0)
	at := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339) }
	for text, want := range map[string]int{
		`[{"name":"a.example","good":"` + at(-time.Minute) + `","addresses":[{"addr":"10.0.0.1"}]}]`:  1,
		`[{"name":"a.example","good":"` + at(-2*time.Hour) + `","addresses":[{"addr":"10.0.0.1"}]}]`:  1, // stale
		`[{"name":"a.example","good":"` + at(time.Minute) + `","addresses":[{"addr":"10.0.0.1"}]}]`:   0,
		`[{"name":"a\n.example","good":"` + at(0) + `","addresses":[{"addr":"10.0.0.1"}]}]`:           0,
		`[{"name":"a.example","good":"` + at(0) + `","addresses":[{"addr":"2001:db8::1"}]}]`:          0,
		`[{"name":"a.example","good":"` + at(0) + `","addresses":[{"addr":"10.0.0.1","port":1},{}]}]`: 0,
		`{`: 0, `null`: 0, "": 0,
	} {
		n := 0
		for _, e := range parseKept([]byte(text), now, policy) {
			if n += len(e.Addresses); n > 0 && e.Stale != strings.Contains(text, at(-2*time.Hour)) {
				t.Errorf("%s: stale is %t", text, e.Stale)
			}
		}
		if n != want {
			t.Errorf("%s: %d addresses, want %d", text, n, want)
		}
	}
}

func TestResolvConf(t *testing.T) {
	for text, want := range map[string]string{
		"": "[127.0.0.1:53]",
		"# x\nsearch a b\n nameserver 10.0.0.1 # y\nnameserver fe80::1%eth0\nnameserver x\nnameserver\nnameserver ::1\noptions edns0\nnameserver 10.0.0.3\n": "[10.0.0.1:53 [fe80::1%eth0]:53 [::1]:53]",
	} {
		if got := fmt.Sprint(parseResolvConf([]byte(text))); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// FuzzParse: whatever comes, there is an answer within bounds or an error.
func FuzzParse(f *testing.F) {
	q := question{"app.example", dnsmessage.TypeA}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{{Name: name("app.example"),
		Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	f.Add(packed(m, 0, a("app.example", "10.0.0.1", 5)), []byte("nameserver 10.0.0.1\n"))
	f.Add(packed(m, 0, cname("app.example", "b.example", 5), srv("b.example", "c.example", 1, 2, 3)), []byte("["))
	f.Fuzz(func(t *testing.T, message, text []byte) {
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeSRV} {
			q.kind = kind
			r, err := q.parse(message, 7)
			if err == nil && (len(r.addrs)+len(r.targets) == 0 && r.alias == "" || len(r.addrs)+len(r.targets) > mostRecords ||
				r.ttl < 0 || r.steps > mostSteps) {
				t.Errorf("%+v", r)
			}
		}
		parseResolvConf(text)
		for _, e := range parseKept(text, time.Unix(2e9, 0), policy) {
			if len(e.Addresses) > sources.MostAddresses {
				t.Errorf("%d addresses", len(e.Addresses))
			}
		}
	})
}

// BenchmarkThousandNames is what 1,000 names with a TTL of 1 s cost, in percent of a processor. The server is another
// process: this one, which runs the benchmark again.
func BenchmarkThousandNames(b *testing.B) {
	const span = 10 * time.Second
	if os.Getenv("DNS_SERVER") != "" {
		s := newServer(b, func(m dnsmessage.Message, _ bool) [][]byte {
			r := a("n.example", "10.1.0.1", 1)
			r.Header.Name = m.Questions[0].Name
			return [][]byte{packed(m, 0, r)}
		})
		fmt.Println("serves", s.addr)
		io.Copy(io.Discard, os.Stdin)
		return
	}
	server := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=ThousandNames", "-test.benchtime=1x")
	server.Env = append(os.Environ(), "DNS_SERVER=1")
	in, err := server.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	defer server.Wait()
	defer in.Close()
	lines, addr := bufio.NewScanner(out), ""
	for addr == "" && lines.Scan() {
		_, addr, _ = strings.Cut(lines.Text(), "serves ")
	}
	at := netip.MustParseAddrPort(addr)
	var asked atomic.Int64
	for b.Loop() {
		names := New(Options{Policy: policy, Servers: []netip.AddrPort{at}})
		names.client.servers = func() []netip.AddrPort {
			asked.Add(1)
			return []netip.AddrPort{at}
		}
		ctx, stop := context.WithCancel(context.Background())
		src := &Source{Names: names}
		var keys []Key
		for i := range 1000 {
			keys = append(keys, Key{Host: fmt.Sprintf("n%d.example", i)})
		}
		go names.Run(ctx)
		names.want(ctx, src, keys, make(chan struct{}, 1))
		before, first := cpu(), asked.Load()
		time.Sleep(span)
		used := cpu() - before
		b.ReportMetric(100*used.Seconds()/span.Seconds(), "%cpu")
		b.ReportMetric(float64(asked.Load()-first)/span.Seconds(), "questions/s")
		stop()
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
