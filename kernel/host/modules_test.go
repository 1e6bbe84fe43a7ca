package host

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// All are loaded by one program, which is told only what is missing.
func TestLoader(t *testing.T) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	builtIn := filepath.Join("lib/modules", unix.ByteSliceToString(name.Release[:]), "modules.builtin")
	names := []string{"ip_vs", "dummy", "xt_mark", "nf_tables"}
	all := map[string]string{builtIn: "kernel/drivers/net/dummy.ko\n", "proc/sys/kernel/modprobe": "/sbin/modprobe\n"}
	for _, c := range []struct {
		name   string
		root   map[string]string
		loaded []string
		want   []string
	}{
		{"nothing loaded", all, nil, []string{"/sbin/modprobe", "-qa", "ip_vs", "xt_mark", "nf_tables"}},
		{"one loaded", all, []string{"ip_vs"}, []string{"/sbin/modprobe", "-qa", "xt_mark", "nf_tables"}},
		{"all loaded", all, []string{"ip_vs", "xt_mark", "nf_tables"}, nil},
		{"no modules of this kernel on disk", map[string]string{"proc/sys/kernel/modprobe": "/sbin/modprobe\n"}, nil, nil},
		{"an administrator turned loading on demand off", map[string]string{builtIn: "", "proc/sys/kernel/modprobe": "\n"}, nil, nil},
	} {
		root := t.TempDir()
		for path, text := range c.root {
			os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755)
			if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, module := range c.loaded {
			if err := os.MkdirAll(filepath.Join(root, "sys/module", module), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if got := loader(root, names); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
