package file

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

const clientsOf = "[services.a]\nclusterIP = \"10.96.0.1\"\nport = 80\n"

func TestClients(t *testing.T) {
	for keys, want := range map[string]string{
		`allow = ["10.1.0.0/16", "@office", "10.0.0.0/8", "@lab", "@lab"]`: "for [10.0.0.0/8 @lab @office] not []: ",
		`deny = ["2001:db8::/32", "192.0.2.1/32"]`:                         "for [] not [192.0.2.1/32 2001:db8::/32]: ",
		`limits = { newConnections = "50/s" }`:                             "for [] not []: 50/s, burst 50",
		`limits = { newConnections = "300/m", burst = 9, perClient = true, connections = 200, reject = true, ` +
			`whenFull = "closed" }`: "for [] not []: 300/m for each client, burst 9, 200 connections for each client, " +
			"others are refused, closed when full",
		"limits = { connections = 1, perClient = false, reject = false, whenFull = \"open\" }": "for [] not []: 1 connection",
		"deny = [\"@bad\"]\nlimits = { reject = true }":                                        "for [] not [@bad]: others are refused",
		"limits = {}": "", "deny = []": "", "limits = { connections = 0 }": "",
		`allow = []`:                          "4: a: allow is empty: leave it out to let everyone in",
		`allow = ["10.0.0.1"]`:                `4: a: allow "10.0.0.1" is not a CIDR: write "10.0.0.1/32"`,
		`deny = ["@off ice"]`:                 `4: a: deny "@off ice": a list's name is that of its file, ` + listNames,
		`deny = ["@../x"]`:                    `4: a: deny "@../x": a list's name`,
		`deny = ["0.0.0.0/0"]`:                `1: a: deny = "0.0.0.0/0" would let no IPv4 client in`,
		`limits = { newConnections = "50" }`:  `4: a: newConnections "50" is not a rate such as "50/s"`,
		`limits = { newConnections = 50 }`:    `4: a: newConnections`,
		`limits = { burst = 5 }`:              "4: a: limits: burst has no effect without newConnections",
		`limits = { perClient = true }`:       "4: a: limits: perClient = true has no effect without newConnections or",
		`limits = { reject = true }`:          "4: a: limits: reject = true has no effect without newConnections, conn",
		`limits = { connections = -1 }`:       "4: a: connections is -1: must be 0 or more",
		`limits = { newConnection = "50/s" }`: `4: a: unknown key "newConnection", did you mean "newConnections"?`,
		`limits = "50/s"`:                     "4: a: limits must be a table, not a string",
		"limits = { newConnections = \"5/s\", whenFull = \"closed\" }": `4: a: limits: whenFull = "closed" has no effect with`,
		"deny = [" + strings.Repeat(`"10.0.0.0/8", `, 1001) + "]":      "4: a: deny has 1001 networks, and at most 1000",
	} {
		text := clientsOf + keys + "\n"
		table, _, problems := Decode("s.toml", []byte(text))
		if len(problems) == 0 {
			problems = sources.Validate(table)
		}
		got := ""
		switch {
		case len(problems) > 0:
			got = strings.TrimPrefix(problems[0].Error(), "s.toml:")
		case table.Services.At(0).Clients != nil:
			c := table.Services.At(0).Clients
			got = fmt.Sprintf("for %v not %v: %s", c.Allowed(), c.Denied(), c.Limits())
		}
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%s\n got %s\nwant %s", keys, got, want)
		}
		encodeAll(t, []byte(text))
	}
	mark := "[services.a]\nfwmark = 5\ndeny = [\"10.0.0.0/8\"]\n"
	table, _, _ := Decode("s.toml", []byte(mark))
	if p := sources.Validate(table); len(p) != 1 || !strings.Contains(p[0].Error(), "fwmark = 5 has no address, by which allow") {
		t.Error(p)
	}
	_, _, err := (&Store{Dir: t.TempDir()}).Put("a", []byte(`{"services": {"a": {"vips": ["10.96.0.1"], "port": 80, `+
		`"keepClientAddress": false, "deny": ["@bad"], "limits": {"newConnections": "5/s", "perClient": true}}}}`), Expect{})
	if err != nil {
		t.Error(err)
	}
}

func TestDecodeList(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "[]",
		"# nothing\n\nnone\n": "[]",
		"10.1.0.0/16 # a\n\t192.0.2.1\r\n2001:db8::/32\n10.0.0.0/8\n2001:db8::1\n": "[10.0.0.0/8 192.0.2.1/32 2001:db8::/32]",
		"10.0.0.0/8\n10.0.0\n":  `list:2: "10.0.0" is not an IP address, nor a CIDR`,
		"10.0.0.0/33\n":         `list:1: "10.0.0.0/33" is not a CIDR such as "10.0.0.0/8"`,
		"fe80::1%eth0\n":        "list:1: an address of a list has no zone",
		"::ffff:10.0.0.1\n":     `list:1: "::ffff:10.0.0.1" is an IPv4-mapped IPv6 address: write "10.0.0.1"`,
		"10.0.0.1 10.0.0.2\n":   `list:1: "10.0.0.1 10.0.0.2" is not an IP address`,
		strings.Repeat("x", 90): `list:1: "` + strings.Repeat("x", 80) + `"...: a line of a list has one network or address`,
	} {
		r, problems := decodeList(reading{}, "list", "l", []byte(text))
		got := fmt.Sprint(r.table.Lists[0].Prefixes)
		if len(problems) > 0 {
			got = problems[0].Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q\n got %s\nwant %s", text, got, want)
		}
	}
	r, _ := decodeList(reading{}, "list", "l", []byte("10.0.0.1/8\n"))
	if len(r.warnings) != 1 || r.warnings[0].Error() !=
		`list:1: "10.0.0.1/8" has bits beyond its prefix length: taken as "10.0.0.0/8"` {
		t.Error(r.warnings)
	}
	again, _ := decodeList(r, "list", "l", []byte("# other words\n10.0.0.0/8\n"))
	if again.table.Lists[0] != r.table.Lists[0] {
		t.Error("the same networks are another list")
	}
}

// A list of the largest size is read in well below a second, and one more is refused with its line.
func TestLargeList(t *testing.T) {
	var b bytes.Buffer
	for i := range sources.MostPrefixes {
		fmt.Fprintf(&b, "%d.%d.%d.0/24\n", 1+i%200, i/200%250, i/50000)
	}
	start := time.Now()
	r, problems := decodeList(reading{}, "list", "l", b.Bytes())
	if took := time.Since(start); len(problems) > 0 || len(r.table.Lists[0].Prefixes) != sources.MostPrefixes {
		t.Error(problems, len(r.table.Lists[0].Prefixes))
	} else {
		t.Log(took)
	}
	b.WriteString("10.0.0.0/8\n")
	_, problems = decodeList(reading{}, "list", "l", b.Bytes())
	if len(problems) != 1 || problems[0].Origin.Line != 100_001 || !strings.Contains(problems[0].Message, "more than 100000") {
		t.Error(problems)
	}
}

// FuzzList: for any bytes, the list is sorted, masked and without overlaps, and what it has, written, is the same list.
func FuzzList(f *testing.F) {
	f.Add([]byte("10.0.0.0/8\n# x\nnone\n2001:db8::1\n"))
	f.Add([]byte("0.0.0.0/0\n::/0\n10.0.0.1/8"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, problems := decodeList(reading{}, "list", "l", data)
		for _, p := range append(problems, r.warnings...) {
			if p.Origin.Line < 1 || p.Origin.Line > 1+bytes.Count(data, []byte("\n")) || strings.Contains(p.Message, "\n") {
				t.Errorf("%q", p.Error())
			}
		}
		var text strings.Builder
		for i, p := range r.table.Lists[0].Prefixes {
			if p != p.Masked() || i > 0 && r.table.Lists[0].Prefixes[i-1].Overlaps(p) {
				t.Fatal(r.table.Lists[0].Prefixes)
			}
			text.WriteString(p.String() + "\n")
		}
		again, problems := decodeList(reading{}, "list", "l", []byte(text.String()))
		if len(problems) > 0 || !slices.Equal(again.table.Lists[0].Prefixes, r.table.Lists[0].Prefixes) {
			t.Error(problems, again.table.Lists[0].Prefixes)
		}
	})
}

// A list comes, changes, is refused, is emptied, and goes. Services stay, and other files of the folder are no lists.
func TestListOfNetworks(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	r.write("s.toml", "a")
	o, _ := r.keeping("s.toml")
	o.Lists = "lists"
	r.run(o)
	r.want("", "a")
	r.must(os.Mkdir(r.path("lists"), 0o755))
	r.put("lists/bad", "10.0.0.0/8\n")
	r.want("", "a", "@bad[10.0.0.0/8]")
	for _, other := range []string{"bad~", "bad.bak", ".bad.swp", "#bad#"} {
		r.put("lists/"+other, "x\n")
	}
	r.put("lists/bad", "10.0.0.0/8\n192.0.2.0/24\n")
	r.want("", "a", "@bad[10.0.0.0/8 192.0.2.0/24]")
	r.put("lists/also", "192.0.2.7\n")
	r.want("", "a", "@also[192.0.2.7/32]", "@bad[10.0.0.0/8 192.0.2.0/24]")
	r.put("lists/bad", "10.0.0.0/8\nx\n")
	r.want(`bad:2: "x" is not an IP address`, "a", "@also[192.0.2.7/32]", "@bad[10.0.0.0/8 192.0.2.0/24]")
	r.put("lists/bad", "# all gone\n")
	r.want("has no networks and had 2 networks: to have none, write none in it; serving the last good content", "a",
		"@also[192.0.2.7/32]", "@bad[10.0.0.0/8 192.0.2.0/24]")
	r.put("lists/bad", "none\n")
	r.want("", "a", "@also[192.0.2.7/32]", "@bad[]")
	r.must(os.Remove(r.path("lists/bad")))
	r.want("", "a", "@also[192.0.2.7/32]")

	// Its last good content counts after a restart, and the folder may go with it.
	r.put("lists/also", "x\n")
	r.want("is not an IP address", "a", "@also[192.0.2.7/32]")
	r.stop()
	r.run(o)
	r.want("is not an IP address", "a", "@also[192.0.2.7/32]")
	r.must(os.Rename(r.path("lists"), r.path("away")))
	r.want("lists: is not there and had 1 file: their last good content is served", "a", "@also[192.0.2.7/32]")
	r.stop()
	r.run(o)
	r.want("lists: is not there and had 1 file", "a", "@also[192.0.2.7/32]")
	r.must(os.Mkdir(r.path("lists"), 0o755))
	r.want("", "a")
}

// A list that is refused is no services file: what it leaves out does not leave the node without services.
func TestRefusedListIsNotNothing(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	r.must(os.Mkdir(r.path("lists"), 0o755))
	r.put("lists/bad", "x\n")
	o := watching("s.d/*.toml")
	o.Lists = "lists"
	r.run(o)
	if rejected, ok := r.want("is not an IP address").(*sources.RejectedError); !ok || rejected.Nothing {
		t.Errorf("%+v", rejected)
	}
}

// Half of a list removes nothing, and half of its last line, which may be a larger network, does not count.
func TestListHalfWritten(t *testing.T) {
	const path, text = "/etc/lists/bad", "10.0.0.0/8\n192.0.2.128/25\n"
	for _, before := range []string{"", text} {
		for cut := range len(text) {
			g := newGuard(waits{50 * time.Millisecond, time.Second, 10 * time.Millisecond}, "/etc/lists")
			g.starting = false
			at := time.Now().Add(time.Minute)
			put := func(text string) {
				id := identity{ino: 1, size: int64(len(text)), written: at.UnixNano(), change: at.UnixNano()}
				g.take(path, look{id: id, content: Content{[]byte(text), true}}, false, at)
			}
			have := func() []netip.Prefix {
				table, _ := g.outcome()
				if l := table.Lists.Named("bad"); l != nil {
					return l.Prefixes
				}
				return nil
			}
			if before != "" {
				put(before)
				at = at.Add(time.Minute)
				put(before)
			}
			was := have()
			if before != "" && len(was) != 2 {
				t.Fatal(was)
			}
			put(text[:cut])
			at = at.Add(900 * time.Millisecond)
			half := identity{ino: 1, size: int64(cut), written: at.Add(-900 * time.Millisecond).UnixNano()}
			half.change = half.written
			g.take(path, look{id: half, content: Content{[]byte(text[:cut]), true}}, false, at)
			now := have()
			for _, p := range now {
				if !slices.Contains([]string{"10.0.0.0/8", "192.0.2.128/25"}, p.String()) {
					t.Errorf("%q: %v", text[:cut], now)
				}
			}
			if len(now) < len(was) {
				t.Errorf("%q removed %v", text[:cut], now)
			}
			at = at.Add(time.Minute)
			put(text)
			at = at.Add(time.Minute)
			put(text)
			if len(have()) != 2 {
				t.Errorf("whole: %v", have())
			}
		}
	}
}

// A folder of lists that is unmounted is not one without lists.
func TestListsUnmounted(t *testing.T) {
	if !inMounts(t) {
		return
	}
	r := &rig{T: t, dir: t.TempDir()}
	r.write("s.toml", "a")
	r.must(os.Mkdir(r.path("lists"), 0o755))
	mounts["tmpfs"](r, r.path("lists"))
	t.Cleanup(func() { _ = syscall.Unmount(r.path("lists"), syscall.MNT_DETACH) })
	r.put("lists/bad", "10.0.0.0/8\n")
	o, _ := r.keeping("s.toml")
	o.Lists, o.remount = "lists", 10*time.Millisecond
	r.run(o)
	r.want("", "a", "@bad[10.0.0.0/8]")
	r.umount("lists")
	if err := r.reload(); err == nil {
		t.Error("reload is content")
	}
	const gone = "lists: is on another file system, without files, and had 1 file"
	r.want(gone, "a", "@bad[10.0.0.0/8]")
	r.stop()
	r.run(o)
	r.want(gone, "a", "@bad[10.0.0.0/8]")
	mounts["tmpfs"](r, r.path("lists"))
	r.put("lists/bad", "10.0.0.0/8\n192.0.2.0/24\n")
	r.want("", "a", "@bad[10.0.0.0/8 192.0.2.0/24]")
}

func TestClientsLoss(t *testing.T) {
	decode := func(keys string) sources.Table {
		table, _, problems := Decode("s.toml", []byte(clientsOf+keys))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return table
	}
	all := decode("allow = [\"10.0.0.0/8\"]\ndeny = [\"@bad\"]\nlimits = { connections = 5 }\n")
	for keys, parts := range map[string]int{
		"": 1, "allow = [\"10.0.0.0/8\"]\ndeny = [\"@bad\"]\n": 1, "allow = [\"10.0.0.0/8\"]\nlimits = { connections = 5 }\n": 1,
		"allow = [\"10.1.0.0/16\"]\ndeny = [\"@bad\"]\nlimits = { connections = 6 }\n": 0,
	} {
		now := decode(keys)
		if l := lossOf(all, now, sources.Compare(all, now)); l.parts != parts || l.services > 0 {
			t.Errorf("%q: %+v", keys, l)
		}
	}
	if reflect.DeepEqual(all, decode("")) {
		t.Error("the same")
	}
}
