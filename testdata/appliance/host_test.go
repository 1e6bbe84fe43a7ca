package appliance

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// onNode is set in the environment of the test binary that runs on the node, to
// the folder with the packages.
const onNode = "SVCPROXY_APPLIANCE"

// nodeArch is the architecture of the node, by Debian's name.
var nodeArch = cmp.Or(os.Getenv("SVCPROXY_GUEST_ARCH"), runtime.GOARCH)

// forNode is the environment of a Go command that builds what the node runs.
func forNode() []string { return append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+nodeArch) }

// made is a folder for the packages of two versions and for test binaries, and
// built whether they are in it.
var (
	made  string
	built = sync.OnceValue(func() error {
		return errors.Join(build(made, "1.0.0"), build(made, "1.0.1"), compileTests(filepath.Join(made, "tests")))
	})
)

func TestMain(m *testing.M) {
	var err error
	if made, err = os.MkdirTemp("", "appliance-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(made)
	os.Exit(code)
}

func build(dir, version string, env ...string) error {
	cmd := exec.Command("../../packaging/build", dir, nodeArch)
	cmd.Env = append(append(os.Environ(), "VERSION="+version, "NFPM=bin/nfpm"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building packages: %w: %s", err, out)
	}
	return nil
}

// packages is the folder with the packages, on the machine that makes them.
func packages(t *testing.T) string {
	t.Helper()
	if os.Getenv(onNode) != "" {
		t.Skip("we are on the node")
	}
	if _, err := os.Stat("../../bin/nfpm"); err != nil || testing.Short() {
		t.Skip("builds packages (make appliance)")
	}
	if err := built(); err != nil {
		t.Fatal(err)
	}
	return made
}

func TestLintersSayNothing(t *testing.T) {
	dir := packages(t)
	if nodeArch != "amd64" {
		t.Skip("is about the packages for amd64")
	}
	for _, linter := range [][]string{
		{"lintian", "--allow-root", "--fail-on=error,warning", "--display-info", "--pedantic", filepath.Join(dir, "svcproxy_1.0.0-1_amd64.deb")},
		{"rpmlint", "--strict", "--config", "../../packaging/rpm/rpmlint.toml", filepath.Join(dir, "svcproxy-1.0.0-1.x86_64.rpm")},
	} {
		if _, err := exec.LookPath(linter[0]); err != nil {
			t.Fatal(err, "(make guest)")
		}
		if out, err := exec.Command(linter[0], linter[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", linter[0], err, out)
		}
	}
}

// A build at another time, in another folder and with other settings gives the same bytes.
func TestBuildsAreTheSameTwice(t *testing.T) {
	dir, again := packages(t), t.TempDir()
	if nodeArch != "amd64" {
		t.Skip("is about the packages for amd64")
	}
	if err := build(again, "1.0.0", "TZ=Asia/Tokyo", "LC_ALL=C.UTF-8", "HOME="+t.TempDir(), "GOCACHE="+goCache(t)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"svcproxy_1.0.0-1_amd64.deb", "svcproxy-1.0.0-1.x86_64.rpm"} {
		a, aerr := os.ReadFile(filepath.Join(dir, name))
		b, berr := os.ReadFile(filepath.Join(again, name))
		if aerr != nil || berr != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: %v, %v; %d and %d bytes", name, aerr, berr, len(a), len(b))
		}
	}
}

func goCache(t *testing.T) string {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out))
}

// TestNode boots nodes. Each runs one script, or some one after the other: it
// loses its power in between, unless the script has ended with a shutdown.
func TestNode(t *testing.T) {
	dir := packages(t)
	const guest = "../../bin/guest"
	if out, err := exec.Command(guest, "root").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s (make guest)", err, out)
	}
	self, err := os.Executable()
	tree, terr := filepath.Abs("../..")
	if err := errors.Join(err, terr); err != nil {
		t.Fatal(err)
	}
	if nodeArch != runtime.GOARCH {
		self = filepath.Join(dir, "appliance.test")
		cmd := exec.Command("go", "test", "-c", "-o", self, ".")
		cmd.Env = forNode()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, boots := range [][]string{{"deb"}, {"rpm"}, {"release"}, {"newcomer", "reboot", "blackout"}, {"unusual"}, {"edge"}, {"fleet"}, {"pair"}, {"sandbox"}} {
		t.Run(boots[0], func(t *testing.T) {
			if boots[0] == "release" {
				repositories(t, dir)
			}
			kept := filepath.Join(t.TempDir(), "kept.tar")
			for _, script := range boots {
				args := []string{"run", "--systemd", "--limit=35m", "--bind", tree, "--bind", dir, "--bind", filepath.Dir(self)}
				if len(boots) > 1 {
					args = append(args, "--keep", kept)
				}
				args = append(args, "--", self, "-test.v", "-test.timeout=30m", "-test.run=^TestScripts$/^"+script+"$")
				cmd := exec.CommandContext(t.Context(), guest, args...)
				cmd.Env = append(os.Environ(), onNode+"="+dir)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", script, err, out)
				}
				t.Logf("%s", out)
			}
		})
	}
}
