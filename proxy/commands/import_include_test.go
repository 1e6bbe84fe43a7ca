package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/cli"
)

const aService = "virtual_server 203.0.113.1 80 {\nprotocol TCP\nreal_server 10.2.1.10 80 {\n}\n}\n"

// imports runs the command import, and returns what it printed.
func imports(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	stdout, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	var stderr bytes.Buffer
	e := &Env{In: in, Out: stdout, Err: &stderr, Version: "1"}
	p := cli.Program{Name: "svcproxy", Flags: e.Flags, Near: func(string, []string) string { return "" }, Commands: []cli.Command{Import(e)}}
	err = p.Run(t.Context(), append([]string{"import"}, args...), stdout)
	text, _ := os.ReadFile(stdout.Name())
	return string(text) + stderr.String(), err
}

// A file is included if all who may write the including file may read it, on the whole path.
func TestIncludesByAuthor(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: it gives files to other users")
	}
	const author, other = 54321, 54322
	for name, c := range map[string]struct {
		owner, group   int         // of the including file
		mode           os.FileMode // and its mode
		dirOwner       int
		dirMode        os.FileMode // of the directory of the included file
		inOwner, inGrp int
		inMode         os.FileMode
		read           bool
	}{
		"root includes its own":              {0, 0, 0o644, 0, 0o755, 0, 0, 0o600, true},
		"root includes that of a user":       {0, 0, 0o600, author, 0o700, author, author, 0o600, true},
		"root, group root may write":         {0, 0, 0o664, 0, 0o755, 0, 0, 0o600, true},
		"a user includes a public file":      {author, author, 0o644, 0, 0o755, 0, 0, 0o644, true},
		"a user includes his own":            {author, author, 0o644, author, 0o700, author, author, 0o600, true},
		"a user includes root's":             {author, author, 0o644, 0, 0o755, 0, 0, 0o600, false},
		"a user includes a group's":          {author, author, 0o644, 0, 0o755, 0, other, 0o640, false},
		"behind a closed directory":          {author, author, 0o644, 0, 0o700, 0, 0, 0o644, false},
		"a group writes root's file":         {0, other, 0o664, 0, 0o755, 0, 0, 0o600, false},
		"a group writes, and may read it":    {0, other, 0o664, 0, 0o755, 0, other, 0o640, true},
		"everybody writes root's file":       {0, 0, 0o666, 0, 0o755, 0, 0, 0o600, false},
		"everybody writes, and may read it":  {0, 0, 0o666, 0, 0o755, 0, 0, 0o644, true},
		"the owner of a file without rights": {author, author, 0o644, 0, 0o755, author, author, 0o044, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for d := dir; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
				if err := os.Chmod(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			conf, inside := filepath.Join(dir, "keepalived.conf"), filepath.Join(dir, "d", "web.conf")
			put := func(name, text string, owner, group int, mode os.FileMode) {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chown(name, owner, group); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(name, mode); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(filepath.Dir(inside), 0o755); err != nil {
				t.Fatal(err)
			}
			put(inside, aService, c.inOwner, c.inGrp, c.inMode)
			put(conf, "include d/*.conf\n", c.owner, c.group, c.mode)
			if err := os.Symlink("d/web.conf", filepath.Join(dir, "link.conf")); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(filepath.Dir(inside), c.dirOwner, 0); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Dir(inside), c.dirMode); err != nil {
				t.Fatal(err)
			}
			for _, what := range []string{"include d/*.conf\n", "include ${_PWD}/d/web.conf\n", "include link.conf\n"} {
				put(conf, what, c.owner, c.group, c.mode)
				out, err := imports(t, conf)
				if strings.Contains(out, "203.0.113.1") != c.read || (err == nil) != c.read {
					t.Errorf("%s: read: %v, error: %v\n%s", what, !c.read, err, out)
				}
				if !c.read && !strings.Contains(out, "may not read it") {
					t.Errorf("%s", out)
				}
			}
		})
	}
}

// The file is for its owner alone, and is not made if there is nothing to import.
func TestImportWrites(t *testing.T) {
	dir := t.TempDir()
	conf, to := filepath.Join(dir, "keepalived.conf"), filepath.Join(dir, "services.toml")
	if err := os.WriteFile(conf, []byte("global_defs {\n}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{conf, "--write", to}, {conf}, {"--output", "json", conf}, {"--from", "ipvsadm", "-"}, {"--from", "haproxy", "-"}, {"--from", "ldirectord", "-"}, {"--from", "kubernetes", "-"}} {
		out, err := imports(t, args...)
		if err == nil || !strings.Contains(err.Error(), "nothing to import") || strings.Contains(out, "step 1") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("a file without services was written")
	}
	if err := os.WriteFile(conf, []byte(aService), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := imports(t, "--write", to, conf)
	if err != nil {
		t.Fatal(err, out)
	}
	info, err := os.Stat(to)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
