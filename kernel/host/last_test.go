package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
)

func TestLastNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if _, ok, err := host.LastNames(dir); ok || err != nil {
		t.Error(ok, err)
	}
	names := kernel.Names{Prefix: "EDGE", Device: "edge0"}
	if err := host.KeepNames(dir, names); err != nil {
		t.Fatal(err)
	}
	if last, ok, err := host.LastNames(dir); last != names || !ok || err != nil {
		t.Error(last, ok, err)
	}
	for text, want := range map[string]string{
		"EDGE": "want a prefix and a device", "EDGE edge0 more": "want a prefix and a device", "edge edge0": "must be 1 to 6",
		"EDGE ../x": "not an interface's name", strings.Repeat("x", 1<<20): "larger than",
	} {
		if err := os.WriteFile(filepath.Join(dir, "names"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if last, ok, err := host.LastNames(dir); ok || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v %v, want %q", text, last, err, want)
		}
	}
	if err := host.ForgetNames(dir); err != nil {
		t.Error(err)
	}
}

func TestLastMode(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if last, err := host.LastMode(dir); last != "" || err != nil {
		t.Error(last, err)
	}
	for _, mode := range []string{"ipvs", "iptables"} {
		if err := host.KeepMode(dir, mode, "1.0"); err != nil {
			t.Fatal(err)
		}
		if last, err := host.LastMode(dir); last != mode || err != nil {
			t.Error(last, err)
		}
	}
	if !host.LastWasAlike(dir, "1.0") || host.LastWasAlike(dir, "1.1") {
		t.Error("the version does not count")
	}
	// Another boot may be of another kernel.
	if err := os.WriteFile(filepath.Join(dir, "mode"), []byte("ipvs\n00000000-0000-0000-0000-000000000000 1.0\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if last, err := host.LastMode(dir); last != "ipvs" || err != nil || host.LastWasAlike(dir, "1.0") {
		t.Error(last, err, "the boot does not count")
	}
	if err := host.ForgetNames(dir); err != nil {
		t.Error(err)
	}
	if last, err := host.LastMode(dir); last != "" || err != nil {
		t.Error(last, err)
	}
}
