package sysctl

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// tree is a /proc/sys in a temporary directory.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, value := range map[string]string{
		"kernel/random/boot_id":              "first-boot\n",
		"net/ipv4/ip_forward":                "0\n",
		"net/ipv4/ip_local_port_range":       "32768\t60999\n",
		"net/ipv4/vs/conntrack":              "0\n",
		"net/ipv4/conf/eth0.100/rp_filter":   "2\n",
		"net/netfilter/nf_log/2":             "NONE\n",
		"net/ipv6/conf/all/forwarding":       "0\n",
		"net/ipv4/vs/expire_nodest_conn":     "0\n",
		"net/ipv4/vs/expire_quiescent_templ": "0\n",
	} {
		put(t, filepath.Join(root, name), value)
	}
	return root
}

func put(t *testing.T, path, value string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t *testing.T, root, stateDir string) *Params {
	t.Helper()
	boot, err := os.ReadFile(filepath.Join(root, "kernel/random/boot_id"))
	if err != nil {
		t.Fatal(err)
	}
	return &Params{root: root, saved: OpenSaved(stateDir, string(boot))}
}

func write(name, value string) []kernel.Op {
	return []kernel.Op{{Verb: kernel.Change, Object: kernel.Sysctl{Name: name, Value: value}}}
}

func apply(t *testing.T, p *Params, ops []kernel.Op) {
	t.Helper()
	if err := kernel.Failures(ops, p.Apply(ops)); err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	p := mustOpen(t, tree(t), "")
	got, err := p.Read([]string{
		"net.ipv4.vs.conntrack", "net.ipv4.ip_forward", "net.ipv4.ip_forward", "net.ipv4.not_there",
		"net.ipv4.conf.eth0/100.rp_filter", "net.ipv4.ip_local_port_range",
	})
	want := []kernel.Sysctl{
		{Name: "net.ipv4.conf.eth0/100.rp_filter", Value: "2"},
		{Name: "net.ipv4.ip_forward", Value: "0"},
		{Name: "net.ipv4.ip_local_port_range", Value: "32768 60999"},
		{Name: "net.ipv4.vs.conntrack", Value: "0"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v and %v", got, err)
	}
}

func TestNamesThatLeadOut(t *testing.T) {
	p := mustOpen(t, tree(t), "")
	for _, name := range []string{
		"", ".", "..", "net..ipv4", "net.ipv4.", ".net", "net.//.kernel.x", "//.//.etc.passwd", "net./.ipv4", "net.ipv4\x00.x",
	} {
		if _, err := p.Read([]string{name}); err == nil {
			t.Errorf("%q was read", name)
		}
		if err := p.Apply(write(name, "1"))[0]; err == nil {
			t.Errorf("%q was written", name)
		}
	}
}

func TestMissing(t *testing.T) {
	root := tree(t)
	p := mustOpen(t, root, t.TempDir())
	hint := func(name string) string {
		t.Helper()
		var m *kernel.MissingError
		if err := p.Apply(write(name, "1"))[0]; !errors.As(err, &m) {
			t.Fatalf("%s: %v", name, err)
		}
		if !strings.Contains(m.What, name) {
			t.Errorf("%s: %s", name, m.What)
		}
		return m.Hint
	}
	for name, want := range map[string]string{
		"net.netfilter.nf_conntrack_max":            "modprobe nf_conntrack",
		"net.netfilter.nf_conntrack_tcp_be_liberal": "modprobe nf_conntrack",
		"net.bridge.bridge-nf-call-iptables":        "modprobe br_netfilter",
		"net.ipv4.vs.conn_reuse_mode":               "", // ip_vs is there, this kernel's has none
		"net.ipv4.nonsense":                         "",
	} {
		if got := hint(name); got != want {
			t.Errorf("%s: hint %q, want %q", name, got, want)
		}
	}
	os.RemoveAll(filepath.Join(root, "net/ipv4/vs"))
	os.RemoveAll(filepath.Join(root, "net/ipv6"))
	if got := hint("net.ipv4.vs.conntrack"); got != "modprobe ip_vs" {
		t.Errorf("hint %q", got)
	}
	if got := hint("net.ipv6.conf.all.forwarding"); !strings.Contains(got, "ipv6.disable=1") {
		t.Errorf("hint %q", got)
	}
	if len(p.saved.All()) != 0 {
		t.Errorf("saved %v", p.saved.All())
	}
}

func TestApplyGoesOn(t *testing.T) {
	p := mustOpen(t, tree(t), "")
	ops := slices.Concat(write("net.ipv4.nonsense", "1"), write("net.ipv4.ip_forward", "1"),
		[]kernel.Op{{Verb: kernel.Remove, Object: kernel.Sysctl{Name: "net.ipv4.ip_forward"}}, {Object: kernel.Link{}}})
	errs := p.Apply(ops)
	if errs[0] == nil || errs[1] != nil || errs[2] == nil || errs[3] == nil {
		t.Errorf("errors %v", errs)
	}
	if got, _ := p.Read([]string{"net.ipv4.ip_forward"}); got[0].Value != "1" {
		t.Errorf("read %v", got)
	}
}

func TestValueBeforeIsRemembered(t *testing.T) {
	root, state := tree(t), filepath.Join(t.TempDir(), "made", "on demand")
	p := mustOpen(t, root, state)
	apply(t, p, slices.Concat(write("net.ipv4.vs.conntrack", "1"), write("net.ipv4.ip_forward", "1"), write("net.ipv4.ip_local_port_range", "32768  60999")))
	want := []kernel.Saved{
		{Name: "net.ipv4.ip_forward", Before: "0", Ours: "1"},
		{Name: "net.ipv4.vs.conntrack", Before: "0", Ours: "1"},
	}
	check := func(when string, p *Params, want []kernel.Saved) {
		t.Helper()
		if got := p.saved.All(); !slices.Equal(got, want) {
			t.Errorf("%s: saved %v, want %v", when, got, want)
		}
		if p.saved.Warning() != nil {
			t.Errorf("%s: %v", when, p.saved.Warning())
		}
	}
	check("at first", p, want)
	check("after a restart", mustOpen(t, root, state), want)

	// A change by another program in between does not replace the saved value.
	put(t, filepath.Join(root, "net/ipv4/ip_forward"), "7\n")
	p = mustOpen(t, root, state)
	apply(t, p, write("net.ipv4.ip_forward", "2"))
	want[0].Ours = "2"
	check("after a drift", p, want)
	check("after a drift and a restart", mustOpen(t, root, state), want)

	apply(t, p, write("net.ipv4.ip_forward", "0"))
	check("after a restore", p, want[1:])
	check("after a restore and a restart", mustOpen(t, root, state), want[1:])

	put(t, filepath.Join(root, "kernel/random/boot_id"), "second-boot\n")
	p = mustOpen(t, root, state)
	check("after a reboot", p, nil)
	put(t, filepath.Join(root, "net/ipv4/vs/conntrack"), "5\n")
	apply(t, p, write("net.ipv4.vs.conntrack", "1"))
	check("a new value before", mustOpen(t, root, state), []kernel.Saved{{Name: "net.ipv4.vs.conntrack", Before: "5", Ours: "1"}})
}

// If the directory cannot be used, there is a warning, and the parameter is still written.
func TestStateDirectoryTrouble(t *testing.T) {
	root, dir := tree(t), t.TempDir()
	file := filepath.Join(dir, "a file")
	put(t, file, "")
	p := mustOpen(t, root, file) // a file in the place of the directory
	apply(t, p, write("net.ipv4.ip_forward", "1"))
	if p.saved.Warning() == nil || len(p.saved.All()) != 1 {
		t.Errorf("warning %v, saved %v", p.saved.Warning(), p.saved.All())
	}
	if got, _ := p.Read([]string{"net.ipv4.ip_forward"}); got[0].Value != "1" {
		t.Errorf("not written: %v", got)
	}
	os.Remove(file)
	apply(t, p, write("net.ipv4.vs.conntrack", "1"))
	if p.saved.Warning() != nil || len(mustOpen(t, root, file).saved.All()) != 2 {
		t.Errorf("warning %v after the directory could be made", p.saved.Warning())
	}

	put(t, filepath.Join(file, SavedFile), "{not json")
	p = mustOpen(t, root, file)
	if p.saved.Warning() == nil || !strings.Contains(p.saved.Warning().Error(), SavedFile) || len(p.saved.All()) != 0 {
		t.Errorf("warning %v, saved %v", p.saved.Warning(), p.saved.All())
	}
}

func TestRealParameters(t *testing.T) {
	kerneltest.NewNamespace(t)
	boot, err := BootID()
	if err != nil {
		t.Fatal(err)
	}
	p := Open(OpenSaved(t.TempDir(), boot))
	const name = "net.ipv4.ip_forward"
	now, err := p.Read([]string{name, "net.ipv4.ip_local_port_range"})
	if err != nil || len(now) != 2 {
		t.Fatal(now, err)
	}
	other := map[string]string{"0": "1", "1": "0"}[now[0].Value]
	apply(t, p, write(name, other))
	if text, _ := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); strings.TrimSpace(string(text)) != other {
		t.Errorf("the file has %q", text)
	}
	if !p.CanWrite(name) || p.CanWrite("net.ipv4.nonsense") || p.CanWrite("kernel.random.boot_id") {
		t.Error("CanWrite is wrong about ip_forward, nonsense or the read-only boot id")
	}
	if err := p.Apply(write(name, "no number"))[0]; err == nil {
		t.Error("a value that is no number was taken")
	}
	apply(t, p, write(name, now[0].Value))
	if len(p.saved.All()) != 0 {
		t.Errorf("saved %v", p.saved.All())
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"net.ipv4.vs.conntrack", "net.ipv4.conf.eth0/100.rp_filter", "//.//.etc", "a..b", ""} {
		f.Add(s)
	}
	p := &Params{root: "/root-of-test"}
	f.Fuzz(func(t *testing.T, name string) {
		path, err := p.path(name)
		if err == nil && (!strings.HasPrefix(path, "/root-of-test/") || filepath.Clean(path) != path || strings.Contains(path, "/../")) {
			t.Fatalf("%q leads to %q", name, path)
		}
	})
}
