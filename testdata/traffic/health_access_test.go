package traffic

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// look writes down what the program of a check can do to the svcproxy that started it. Its arguments are stateDir, the
// control socket, a file with a secret, and where to write. It starts few processes: an emulated one takes a long time.
const look = `#!/bin/sh
{
	for f in "$1"/* "$1"/last-good/* "$1"/last-good/services/* "$3" /proc/$PPID/environ /proc/$PPID/mem /proc/$PPID/maps /proc/$PPID/auxv; do
		true <"$f" && echo "reads $f"
		true >>"$f" && echo "writes $f"
	done
	for f in "$1"/*; do test "$f" = "$1/*" || echo "lists $f"; done
	true >"$1/new" && echo "makes $1/new"
	test -w "$2" && echo "may connect to $2"
	rm -f "$2"
	test -e "$2" || echo "removed $2"
	for f in /proc/$PPID/fd/* /proc/$PPID/cwd/*; do test -e "$f" && echo "sees $f"; done
	kill -0 $PPID && echo "may kill $PPID"
	for fd in 3 4 5 6 7 8 9; do test -e /proc/$$/fd/$fd && echo "has descriptor $fd: $(readlink /proc/$$/fd/$fd)"; done
	env | grep -v '^SVCPROXY_\|^PATH=\|^PWD=\|^_=\|^OLDPWD=\|^SHLVL='
	grep '^Cap[PEB][rf][mfd].*[1-9a-f]' /proc/self/status | grep -v CapBnd
	test "$(id -u)" = 0 && echo "is root"
	echo "$(id -un) with groups $(id -Gn): end"
} >"$4.$$" 2>/dev/null
mv "$4.$$" "$4"
`

// The program of a check, which an author of a services file chooses, is one of health.execDirs, and has no access to what
// svcproxy has, nor to what the process that started svcproxy left open.
func TestProgramsOfChecksHaveNoAccess(t *testing.T) {
	n := newCheckedNode(t, "")
	checks, told := filepath.Join(n.Dir, "checks"), t.TempDir()
	must(t, os.Mkdir(checks, 0o755))
	must(t, os.WriteFile(filepath.Join(checks, "look"), []byte(look), 0o755))
	open(t, n.Dir)
	open(t, told)
	must(t, os.Chmod(told, 0o777))
	secret := filepath.Join(n.Dir, "kubeconfig")
	must(t, os.WriteFile(secret, []byte("token: secret"), 0o600))
	must(t, n.Configure(fmt.Sprintf("health.execDirs = [%q]\n", checks)))
	state, report, pwned := filepath.Join(n.Dir, "state"), filepath.Join(told, "report"), filepath.Join(told, "pwned")
	check := fmt.Sprintf(`{ type = "exec", command = %q, args = [%q, %q, %q, %q], interval = "10s", timeout = "1m" }`,
		filepath.Join(checks, "look"), state, n.socket(), secret, report)
	shell := fmt.Sprintf(`{ type = "exec", command = "/bin/sh", args = ["-c", "touch %s"], interval = "1s", timeout = "5s" }`, pwned)
	good := checkedService{name: "good", vip: "10.96.9.1", port: 7911, check: check}
	bad := checkedService{name: "bad", vip: "10.96.9.2", port: 7912, check: shell}
	must(t, n.Serve(good.text()+bad.text()))
	mark := n.Log.Len()
	must(t, n.Start("sh", "-c", `exec "$@" 3</dev/null 7</dev/null 8>/dev/null`, "sh"))
	n.synced(t, mark)
	var text []byte
	must(t, lab.Eventually(patience, func() (err error) {
		text, err = os.ReadFile(report)
		return err
	}))
	if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); len(lines) != 1 || !strings.HasSuffix(lines[0], ": end") {
		t.Errorf("the program of a check says what it could do:\n%s", text)
	}
	must(t, lab.Eventually(patience, func() error {
		out, _ := n.asks(t, "health")
		if !strings.Contains(out, "health.execDirs") {
			return fmt.Errorf("health.execDirs is not named:\n%s", out)
		}
		return nil
	}))
	if _, err := os.Stat(pwned); err == nil {
		t.Error("a services file ran a shell")
	}
	if out, _ := n.asks(t, "check"); !strings.Contains(out, "is in none of the directories "+checks) {
		t.Errorf("check does not say that the program is not run:\n%s", out)
	}
}
