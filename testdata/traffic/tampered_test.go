package traffic

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// stateFiles are all files below stateDir and runtimeDir. They belong to the
// service's user, who can make anything of them. A new one comes in here.
var stateFiles = []string{
	"state/incumbents",
	"state/mode",
	"state/names",
	"state/virtuals",
	"state/sysctls.json",
	"state/sysctls.json.unread",
	"state/overrides.json",
	"state/overrides.json.unread",
	"state/agents.json",
	"state/node-drain.json",
	"state/node-drain.json.unread",
	"state/events.jsonl",
	"state/dns.json",
	"state/last-good/*",
	"state/last-good/services/*",
	"run/svcproxy.sock",
}

// nobody is the user of the service.
const nobody = 65534

// tampering is what the service's user makes of each file, and of the ones that
// are made on the way to it.
var tampering = []struct {
	what string
	put  func(path, victim string) error
	fail bool // cleanup may refuse, and names the file
}{
	{"links", func(path, victim string) error { return os.Symlink(victim, path) }, false},
	{"FIFOs", func(path, _ string) error { return syscall.Mkfifo(path, 0o666) }, false},
	{"huge", func(path, _ string) error {
		return errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, 8<<30))
	}, false},
	{"garbage", func(path, _ string) error { return os.WriteFile(path, []byte("\x00\xff{[\"\n"), 0o644) }, false},
	{"folders", func(path, _ string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o755) }, true},
	{"other parameters", otherParameters, false},
	{"no parameter", noParameter, false},
	{"another link", anotherLink, true},
	{"another dummy", func(path, _ string) error { return only(path, "names", "KUBE others1\n") }, true},
	{"another prefix", func(path, _ string) error { return only(path, "names", "../.. -x\n") }, false},
}

// otherParameters would have root run a program, and undo what others set.
func otherParameters(path, victim string) error {
	return parameters(path, map[string][2]string{
		"kernel.core_pattern": {"|/tmp/root", readSysctl("kernel/core_pattern")},
		"net.core.somaxconn":  {"1", readSysctl("net/core/somaxconn")},
		"net.ipv4.ip_forward": {"|" + victim, "1"},
	})
}

// noParameter has a name that leads out of the parameter's folder.
func noParameter(path, _ string) error {
	return parameters(path, map[string][2]string{"net.ipv4.ip_forward/../../x": {"0", "1"}})
}

// parameters writes the record of kernel parameters: by name, the value from before
// and svcproxy's own.
func parameters(path string, values map[string][2]string) error {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	var list []string
	for name, v := range values {
		list = append(list, fmt.Sprintf(`{"name": %q, "before": %q, "ours": %q}`, name, v[0], v[1]))
	}
	return only(path, "sysctls.json", fmt.Sprintf(`{"bootID": %q, "sysctls": [%s]}`, strings.TrimSpace(string(boot)), strings.Join(list, ",")))
}

func readSysctl(name string) string {
	value, _ := os.ReadFile("/proc/sys/" + name)
	return strings.TrimSpace(string(value))
}

func anotherLink(path, _ string) error { return only(path, "names", "KUBE others0\n") }

// only writes one file of those that are tampered with.
func only(path, name, text string) error {
	if filepath.Base(path) != name {
		return nil
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// Whatever the service's user does to its directories, run and a purge's
// cleanup change nothing outside them, and continue if they can.
func TestTamperedState(t *testing.T) {
	kerneltest.Need(t, kerneltest.Dummy)
	n := newLonelyNode(t, "")
	must(t, n.Lab.Node.IP("link add others0 type bridge", "addr add 192.0.2.77/32 dev others0",
		"link add others1 type dummy", "addr add 192.0.2.78/32 dev others1"))
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	must(t, os.WriteFile(victim, []byte("victim\n"), 0o600))
	n.plantForeign(t)
	before, pattern, backlog := n.read(t), readSysctl("kernel/core_pattern"), n.tool(t, "sysctl", "net.core.somaxconn")
	n.giveAway(t)
	for _, c := range tampering {
		t.Run(c.what, func(t *testing.T) {
			t.Cleanup(func() { n.abandon(t) })
			n.start(t, web)
			n.order(t, 0, "drain 192.0.2.200 --force")
			n.order(t, 0, "node drain")
			n.known(t)
			n.tamper(t, func(path string) error { return c.put(path, victim) })
			must(t, n.Stop())
			n.tamper(t, func(path string) error { return c.put(path, victim) })
			begin := time.Now()
			out, code, err := n.Command("cleanup")
			if took := time.Since(begin); err != nil || took > 30*time.Second {
				t.Fatalf("cleanup: %v after %v\n%s", err, took, out)
			}
			if code != 0 && !c.fail {
				t.Errorf("cleanup: exit code %d\n%s", code, out)
			}
			if !c.fail {
				n.tamper(t, func(path string) error { return c.put(path, victim) })
				n.start(t, web)
				must(t, n.Stop())
			}
			untouched(t, victim)
			if now := readSysctl("kernel/core_pattern"); now != pattern {
				t.Errorf("core_pattern is %q", now)
			}
			if now := n.tool(t, "sysctl", "net.core.somaxconn"); now != backlog {
				t.Errorf("of others: %s", now)
			}
			if out := n.tool(t, "ip", "-o", "addr"); !strings.Contains(out, "192.0.2.77/32") || !strings.Contains(out, "192.0.2.78/32") {
				t.Errorf("the address of another link is gone:\n%s", out)
			}
			n.untamper(t)
			n.cleanUp(t, before)
		})
	}
}

// untouched wants the victim to be root's, and alone.
func untouched(t *testing.T, victim string) {
	t.Helper()
	if text, err := os.ReadFile(victim); string(text) != "victim\n" || err != nil {
		t.Errorf("the victim is %q, %v", text, err)
	}
	if st, err := os.Stat(victim); err != nil || st.Mode() != 0o600 || st.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("the victim is %v, %v", st.Mode(), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(victim)); err != nil || len(entries) != 1 {
		t.Errorf("outside are %v, %v", entries, err)
	}
}

// giveAway makes the directories, for the service's user.
func (n node) giveAway(t *testing.T) {
	t.Helper()
	must(t, os.Chmod(filepath.Dir(n.Dir), 0o755)) // of t.TempDir
	n.shareTools(t)
	for _, dir := range []string{"state", "run"} {
		must(t, os.Mkdir(filepath.Join(n.Dir, dir), 0o755))
		must(t, os.Chown(filepath.Join(n.Dir, dir), nobody, nobody))
	}
}

// shareTools makes PATH find the same iptables for the service's user as for root.
// Root's may be in a folder that other users cannot read.
func (n node) shareTools(t *testing.T) {
	t.Helper()
	dir := filepath.Join(n.Dir, "tools")
	must(t, os.Mkdir(dir, 0o755))
	for _, tool := range []string{"iptables", "ip6tables"} {
		for _, does := range []string{"", "-save", "-restore"} {
			path, err := exec.LookPath(tool + does)
			must(t, err)
			path, err = filepath.EvalSymlinks(path)
			must(t, err)
			must(t, os.Symlink(path, filepath.Join(dir, tool+does)))
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// known wants exactly the files of the table, owned by the service's user. Some
// are written soon after the first sync, under a temporary name until they are
// whole, and one is root's until then.
func (n node) known(t *testing.T) {
	t.Helper()
	err := lab.Eventually(patience, func() error {
		files := n.stateFiles(t)
		for _, file := range files {
			st, err := os.Lstat(filepath.Join(n.Dir, file))
			if err != nil {
				return err
			}
			if uid := st.Sys().(*syscall.Stat_t).Uid; uid != nobody && st.Mode().IsRegular() {
				return fmt.Errorf("%s belongs to %d: the service could not replace it", file, uid)
			}
		}
		return known(files)
	})
	if err != nil {
		t.Error(err)
	}
}

// known is why the files are not those of the table, nil if they are.
func known(files []string) error {
	for _, file := range files {
		if !slices.ContainsFunc(stateFiles, func(pattern string) bool { ok, _ := path.Match(pattern, file); return ok }) {
			return fmt.Errorf("%s is not in stateFiles", file)
		}
	}
	for _, late := range []string{"state/incumbents", "state/virtuals"} {
		if !slices.Contains(files, late) {
			return fmt.Errorf("%s is not there", late)
		}
	}
	return nil
}

// stateFiles are those that are there, but for folders.
func (n node) stateFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, dir := range []string{"state", "run"} {
		must(t, filepath.WalkDir(filepath.Join(n.Dir, dir), func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				path, err = filepath.Rel(n.Dir, path)
				files = append(files, path)
			}
			return err
		}))
	}
	return files
}

// tamper puts something in the place of each file of the table that is there,
// and beside it. A put that makes nothing leaves the file.
func (n node) tamper(t *testing.T, put func(path string) error) {
	t.Helper()
	for _, file := range n.stateFiles(t) {
		if strings.HasSuffix(file, ".new") || strings.HasSuffix(file, "~") {
			continue // an earlier tampering's
		}
		file = filepath.Join(n.Dir, file)
		for _, name := range []string{file, file + ".new", file + "~"} {
			aside := filepath.Join(n.Dir, "aside")
			err := os.Rename(name, aside)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			must(t, put(name))
			if _, made := os.Lstat(name); made == nil {
				must(t, errors.Join(os.Lchown(name, nobody, nobody), os.RemoveAll(aside)))
			} else if err == nil {
				must(t, os.Rename(aside, name))
			}
		}
	}
}

// abandon keeps what a failed row leaves from the next one.
func (n node) abandon(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	n.Kill()
	n.untamper(t)
	if out, code, err := n.Command("cleanup"); code != 0 || err != nil {
		t.Logf("cleanup after the failure: exit code %d, %v\n%s", code, err, out)
	}
}

// untamper leaves the service empty directories.
func (n node) untamper(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"state", "run"} {
		entries, err := os.ReadDir(filepath.Join(n.Dir, dir))
		must(t, err)
		for _, e := range entries {
			must(t, os.RemoveAll(filepath.Join(n.Dir, dir, e.Name())))
		}
	}
}
