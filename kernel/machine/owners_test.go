package machine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCheckProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files that root owns")
	}
	dir := t.TempDir()
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := filepath.Join(dir, "link")
	foreign, open := file("foreign", 0o755), file("open/program", 0o755)
	os.Chown(foreign, 65534, 65534)
	os.Chmod(filepath.Dir(open), 0o777)
	os.Symlink(open, link)
	for path, want := range map[string]string{
		"/bin/sh":                        "",
		file("good", 0o755):              "",
		"bin/sh":                         `"bin/sh" is not an absolute path`,
		"":                               `"" is not an absolute path`,
		"/nonexistent":                   "lstat /nonexistent: no such file or directory",
		dir:                              dir + " is not a program",
		file("text", 0o644):              dir + "/text is not a program",
		file("group", 0o775):             "others than root can write " + dir + "/group",
		foreign:                          "root does not own " + foreign,
		open:                             "others than root can write " + dir + "/open",
		link:                             "others than root can write " + dir + "/open",
		filepath.Join(dir, "good", "up"): "lstat " + dir + "/good/up: not a directory",
	} {
		got := ""
		if err := CheckProgram(path); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}
