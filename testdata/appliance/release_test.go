package appliance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// releases are commits that stand for release 0.1.0, the first that is there: its tag, then an earlier commit from which
// other tests upgrade, too, and in a clone without both this one.
var releases = []string{"v0.1.0", "b3452fbc183a350d6e1f198216be0692675e1b9a", "HEAD"}

// repositories makes two signed apt repositories in a folder: old has release 0.1.0, new has this tree's 1.0.1, too.
func repositories(t *testing.T, dir string) {
	t.Helper()
	var commit string
	for _, name := range releases {
		out, err := exec.Command("git", "rev-parse", "--quiet", "--verify", name+"^{commit}").Output()
		if err == nil {
			commit = strings.TrimSpace(string(out))
			break
		}
	}
	nfpm, err := filepath.Abs("../../bin/nfpm")
	home, herr := os.MkdirTemp("", "gpg") // a short path: there is a socket in it
	if err := errors.Join(err, herr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run()
		os.RemoveAll(home)
	})
	env := append(os.Environ(), "GNUPGHOME="+home, "VERSION=0.1.0", "NFPM="+nfpm, "SOURCE_DATE_EPOCH=1782907200")
	run := func(program string, args ...string) string {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Env = env
		cmd.Dir = "../.."
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v: %s", program, args, err, out)
		}
		return string(out)
	}
	tree, first := t.TempDir(), t.TempDir()
	archive := filepath.Join(t.TempDir(), "release.tar")
	run("git", "archive", "--output", archive, commit)
	run("tar", "-x", "-C", tree, "-f", archive)
	run(filepath.Join(tree, "packaging/build"), first, nodeArch)

	run("gpg", "--batch", "--quiet", "--faked-system-time", "20260101T000000", "--passphrase", "", "--quick-generate-key", "release", "ed25519", "sign", "never")
	key := regexp.MustCompile(`(?m)^fpr:+(\w+):`).FindStringSubmatch(run("gpg", "--batch", "--with-colons", "--list-keys"))
	old := filepath.Join(first, "svcproxy_0.1.0-1_"+nodeArch+".deb")
	for name, packages := range map[string][]string{
		"old": {old},
		"new": {old, filepath.Join(dir, "svcproxy_1.0.1-1_"+nodeArch+".deb")},
	} {
		folder := filepath.Join(dir, "apt", name)
		run("mkdir", "-p", folder+"/pool")
		run("cp", append(packages, folder+"/pool")...)
		run("go", "run", "./packaging/release", "apt", folder, key[1])
	}
	t.Log(fmt.Sprint("release 0.1.0 is commit ", commit))
}
