package kerneltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Backends are the back ends of iptables.
var Backends = []string{"nft", "legacy"}

// UseBackend makes iptables, ip6tables and their -save and -restore those of one back
// end for the rest of the test: for the program, which looks for them on PATH, and for
// Run. Debian installs both back ends side by side.
func UseBackend(t testing.TB, name string) {
	t.Helper()
	multi := "xtables-" + name + "-multi"
	Need(t, Tool(multi))
	path, err := exec.LookPath(multi)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, tool := range []string{"iptables", "ip6tables"} {
		for _, does := range []string{"", "-save", "-restore"} {
			if err := os.Symlink(path, filepath.Join(dir, tool+does)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}
