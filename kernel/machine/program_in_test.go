package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Only a program of root's in one of the directories is one, by whatever path it is named.
func TestProgramIn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files that root owns")
	}
	top := t.TempDir()
	checks, other, sticky := filepath.Join(top, "checks"), filepath.Join(top, "checks-other"), filepath.Join(top, "sticky")
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	for dir, mode := range map[string]os.FileMode{checks: 0o755, checks + "/sub": 0o755, checks + "/open": 0o777 | os.ModeSticky, other: 0o755, sticky: 0o777 | os.ModeSticky} {
		must(os.MkdirAll(dir, 0o755))
		must(os.Chmod(dir, mode))
		must(os.WriteFile(dir+"/program", nil, 0o755))
	}
	for link, to := range map[string]string{"out": "/bin/sh", "up": "../checks-other/program", "dir": "..", "in": "sub/program"} {
		must(os.Symlink(to, filepath.Join(checks, link)))
	}
	linked := filepath.Join(top, "linked")
	must(os.Symlink(checks, linked))
	must(os.WriteFile(checks+"/foreign", nil, 0o755))
	must(os.Chown(checks+"/foreign", 65534, 65534))
	dirs := []string{"/nonexistent", linked, sticky}
	for path, want := range map[string]string{
		checks + "/program":                  "",
		checks + "/sub/program":              "",
		linked + "/program":                  "",
		checks + "/in":                       "",
		checks + "/sub/../program":           "",
		"/bin/sh":                            "is in none of the directories",
		other + "/program":                   "is in none of the directories",
		checks + "/out":                      "is in none of the directories",
		checks + "/up":                       "is in none of the directories",
		checks + "/dir/checks-other/program": "is in none of the directories",
		checks + "/../checks-other/program":  "is in none of the directories",
		checks + "/open/program":             "others than root can write",
		sticky + "/program":                  "others than root can write",
		checks + "/foreign":                  "root does not own",
		checks:                               "is not a program",
		"program":                            "is not an absolute path",
		checks + "/nothing":                  "no such file",
	} {
		real, err := ProgramIn(path, dirs)
		if want == "" && (err != nil || !strings.HasPrefix(real, checks+"/")) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v; want %q", path, real, err, want)
		}
	}
	if _, err := ProgramIn("/bin/sh", nil); err == nil {
		t.Error("without directories there is a program")
	}
}
