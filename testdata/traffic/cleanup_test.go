package traffic

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A link in the place of a folder leads nowhere either, and cleanup works as the
// service's user.
func TestCleanupIsNotRoot(t *testing.T) {
	inGuest(t, "changes the lock of the machine's iptables-legacy")
	n := newLonelyNode(t, "")
	n.plantForeign(t)
	before := n.read(t)
	n.giveAway(t)
	outside := t.TempDir()
	for _, name := range []string{"state/last-good", "run/svcproxy.sock~"} {
		must(t, os.Symlink(outside, filepath.Join(n.Dir, name)))
		must(t, os.Lchown(filepath.Join(n.Dir, name), nobody, nobody))
	}
	n.start(t, web)
	if !strings.Contains(n.Log.String(), "last-good is a link that user 65534 has made") {
		t.Error("nothing is said about the link")
	}
	must(t, n.Stop())
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("where the link leads are %v, %v", entries, err)
	}
	if n.hasTool("strace") {
		trace := filepath.Join(t.TempDir(), "trace")
		_, err := n.Lab.Node.Run("strace", "-f", "-e", "trace=openat,execve,setresuid", "-o", trace, n.Binary, "cleanup", "--config", filepath.Join(n.Dir, "svcproxy.toml"))
		must(t, err)
		n.dropsFirst(t, trace)
	}
	n.cleanUp(t, before)
}

// dropsFirst wants the change of user before anything of the state directory is
// opened.
func (n node) dropsFirst(t *testing.T, trace string) {
	t.Helper()
	text, err := os.ReadFile(trace)
	must(t, err)
	user, name := strings.Index(string(text), "setresuid(65534, 65534, 65534)"), strings.Index(string(text), `"names"`)
	if user < 0 || name < user {
		t.Errorf("setresuid is at %d, names is opened at %d", user, name)
	}
	if !strings.Contains(string(text), `/iptables-save", `) {
		t.Log("no program was started")
	}
}

func (n node) hasTool(name string) bool {
	_, err := n.Lab.Node.Run("sh", "-c", "command -v "+name)
	return err == nil
}

// xtablesLock is what iptables-legacy locks.
const xtablesLock = "/run/xtables.lock"

// Root's own iptables-legacy makes its lock for root alone. cleanup removes the
// chains anyway, and a dry run changes nothing.
func TestCleanupSharesTheLegacyLock(t *testing.T) {
	inGuest(t, "changes the lock of the machine's iptables-legacy")
	kerneltest.UseBackend(t, "legacy")
	n := newLonelyNode(t, "")
	n.plantForeign(t)
	before := n.read(t)
	n.giveAway(t)
	n.start(t, web)
	must(t, n.Stop())
	must(t, os.Chown(xtablesLock, 0, 0))
	must(t, os.Chmod(xtablesLock, 0o600))
	out, code, err := n.Command("cleanup", "--dry-run")
	must(t, err)
	if code != 0 || !strings.Contains(out, "- chain ipv4 nat KUBE-SERVICES") {
		t.Errorf("cleanup --dry-run: exit code %d\n%s", code, out)
	}
	wantLock(t, 0o600, 0)
	n.cleanUp(t, before)
	wantLock(t, 0o640, nobody)
}

func wantLock(t *testing.T, mode fs.FileMode, gid uint32) {
	t.Helper()
	st, err := os.Lstat(xtablesLock)
	must(t, err)
	if is := st.Sys().(*syscall.Stat_t); st.Mode() != mode || is.Uid != 0 || is.Gid != gid {
		t.Errorf("%s is %v of %d:%d, want %v of 0:%d", xtablesLock, st.Mode(), is.Uid, is.Gid, mode, gid)
	}
}

// If the service's user may not run root's iptables, the next one on PATH may use the
// other back end and see no chains. Then cleanup fails before it changes anything.
func TestCleanupRunsTheToolsOfRoot(t *testing.T) {
	inGuest(t, "changes the lock of the machine's iptables-legacy")
	n := newLonelyNode(t, "")
	n.giveAway(t)
	kerneltest.UseBackend(t, "legacy")
	n.plantForeign(t)
	before := n.read(t)
	n.start(t, web)
	must(t, n.Stop())
	served := n.read(t)
	dir, _, _ := strings.Cut(os.Getenv("PATH"), string(os.PathListSeparator))
	must(t, os.Chmod(dir, 0o700))
	out, code, err := n.Command("cleanup")
	must(t, err)
	if code != 4 || !strings.Contains(out, "user 65534 may not run "+filepath.Join(dir, "iptables-save")) {
		t.Errorf("cleanup: exit code %d\n%s", code, out)
	}
	if diff := lab.Diff(served, n.read(t)); diff != "" {
		t.Errorf("cleanup failed and has changed\n%s", head(diff))
	}
	must(t, os.Chmod(dir, 0o755))
	n.cleanUp(t, before)
}

// A purge of the package removes what cleanup does, and svcproxy's files from the state and runtime directories, which may
// have others. Without a record of a run it leaves the kernel alone: the names there may be another proxy's.
func TestPurge(t *testing.T) {
	inGuest(t, "changes the lock of the machine's iptables-legacy")
	n := newLonelyNode(t, "")
	n.plantForeign(t)
	before := n.read(t)
	n.giveAway(t)
	theirs := filepath.Join(n.Dir, "state/accounts")
	must(t, os.WriteFile(theirs, []byte("theirs\n"), 0o600))
	purge := func() {
		t.Helper()
		out, code, err := n.Command("purge")
		must(t, err)
		if code != 0 {
			t.Errorf("purge: exit code %d\n%s", code, out)
		}
	}

	n.start(t, web)
	n.order(t, 0, "drain 192.0.2.200 --force")
	n.order(t, 0, "node drain")
	must(t, n.Stop())
	if files := n.stateFiles(t); len(files) < 9 {
		t.Errorf("too little to remove: %q", files)
	}
	purge()
	if diff := lab.Diff(before, n.read(t)); diff != "" {
		t.Errorf("the kernel before svcproxy and after a purge:\n%s", head(diff))
	}
	if files := n.stateFiles(t); !slices.Equal(files, []string{"state/accounts"}) {
		t.Errorf("after a purge there are %q", files)
	}

	n.start(t, web)
	must(t, n.Stop())
	served := n.read(t)
	must(t, os.Remove(filepath.Join(n.Dir, "state/names")))
	purge()
	if diff := lab.Diff(served, n.read(t)); diff != "" {
		t.Errorf("without a record of a run, a purge has changed\n%s", head(diff))
	}
	n.cleanUp(t, before)
}
