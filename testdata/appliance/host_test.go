package appliance

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// onNode is set in the environment of the test binary that runs on the node.
const onNode = "SVCPROXY_APPLIANCE"

// TestNode boots nodes. Each runs one script, or two with a boot in between.
func TestNode(t *testing.T) {
	if os.Getenv(onNode) != "" {
		t.Skip("we are on the node")
	}
	if testing.Short() {
		t.Skip("builds packages and boots guests")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	guest := filepath.Join(root, "bin/guest")
	if out, err := exec.Command(guest, "root").CombinedOutput(); err != nil {
		t.Skipf("make guest: %v: %s", err, out)
	}
	packages := t.TempDir()
	for _, version := range []string{"1.0.0", "1.0.1"} {
		cmd := exec.Command(filepath.Join(root, "packaging/build"), packages, "amd64")
		cmd.Env = append(os.Environ(), "VERSION="+version, "NFPM="+filepath.Join(root, "bin/nfpm"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("building packages: %v: %s", err, out)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, boots := range map[string][]string{"deb": {"deb"}, "rpm": {"rpm"}, "boot": {"boot1", "boot2"}} {
		t.Run(name, func(t *testing.T) {
			kept := filepath.Join(t.TempDir(), "kept.tar")
			for _, script := range boots {
				args := []string{"run", "--systemd", "--boot-limit=3m", "--limit=12m", "--bind", packages, "--bind", filepath.Dir(self)}
				if len(boots) > 1 {
					args = append(args, "--keep", kept)
				}
				args = append(args, "--", self, "-test.v", "-test.timeout=10m", "-test.run=^TestScripts$/^"+script+"$")
				cmd := exec.CommandContext(t.Context(), guest, args...)
				cmd.Env = append(os.Environ(), onNode+"="+packages)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", script, err, out)
				}
				t.Logf("%s", out)
			}
		})
	}
}
