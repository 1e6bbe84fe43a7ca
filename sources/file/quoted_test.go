package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
)

// Errors quote a file only if those who could make its name mean this file may read it.
func TestQuotesNothingThatItsAuthorCannotRead(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: it gives files to other users")
	}
	const author, other = 54321, 54322
	type tree struct {
		*testing.T
		dir, secret, entry string
	}
	must := func(t tree, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	link := func(t tree, uid int, to, at string) {
		must(t, os.Symlink(to, at))
		must(t, os.Lchown(at, uid, uid))
	}
	own := func(t tree, uid, gid int, mode os.FileMode) {
		must(t, os.Chown(t.secret, uid, gid))
		must(t, os.Chmod(t.secret, mode))
	}
	for name, c := range map[string]struct {
		quoted bool
		make   func(t tree)
	}{
		"a file":                    {true, func(t tree) { must(t, os.Rename(t.secret, t.entry)) }},
		"a link of root":            {true, func(t tree) { link(t, 0, t.secret, t.entry) }},
		"a link to root's":          {false, func(t tree) { link(t, author, t.secret, t.entry) }},
		"a relative link to root's": {false, func(t tree) { link(t, author, "../private/secret", t.entry) }},
		"a link to a group's":       {false, func(t tree) { own(t, 0, other, 0o640); link(t, author, t.secret, t.entry) }},
		"a link to another user's": {false, func(t tree) {
			own(t, other, other, 0o600)
			link(t, author, t.secret, t.entry)
		}},
		"a link to the author's own": {true, func(t tree) {
			own(t, author, author, 0o600)
			link(t, author, t.secret, t.entry)
		}},
		"a link to a public file": {true, func(t tree) { own(t, 0, 0, 0o644); link(t, author, t.secret, t.entry) }},
		"behind a closed directory": {false, func(t tree) {
			own(t, 0, 0, 0o644)
			must(t, os.Chmod(filepath.Dir(t.secret), 0o700))
			link(t, author, t.secret, t.entry)
		}},
		"by a link of root": {false, func(t tree) {
			link(t, 0, t.secret, t.dir+"/link")
			link(t, author, t.dir+"/link", t.entry)
		}},
		"a link of root to one of the author": {false, func(t tree) {
			link(t, author, t.secret, t.dir+"/link")
			link(t, 0, t.dir+"/link", t.entry)
		}},
		"a directory that is a link": {false, func(t tree) {
			must(t, os.Remove(filepath.Dir(t.entry)))
			link(t, author, t.dir+"/private", filepath.Dir(t.entry))
			must(t, os.Rename(t.secret, t.entry))
			t.secret = t.entry
		}},
		"another name of root's": {false, func(t tree) {
			must(t, os.Chown(filepath.Dir(t.entry), author, author))
			must(t, os.Link(t.secret, t.entry))
		}},
		"another name of root's, in a group's directory": {false, func(t tree) {
			must(t, os.Chown(filepath.Dir(t.entry), 0, other))
			must(t, os.Chmod(filepath.Dir(t.entry), 0o775))
			must(t, os.Link(t.secret, t.entry))
		}},
		"another name, in root's directory": {true, func(t tree) { must(t, os.Link(t.secret, t.entry)) }},
	} {
		t.Run(name, func(t *testing.T) {
			in := tree{T: t, dir: t.TempDir()}
			for d := in.dir; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
				must(in, os.Chmod(d, 0o755))
			}
			in.secret, in.entry = in.dir+"/private/secret", in.dir+"/services.d/x.toml"
			for _, path := range []string{in.secret, in.entry} {
				must(in, os.Mkdir(filepath.Dir(path), 0o755))
			}
			text := "# a secret\n\n\nsesame = 1\n"
			must(in, os.WriteFile(in.secret, []byte(text), 0o600))
			c.make(in)
			_, _, problems, err := Load(t.Context(), Options{Paths: []string{in.dir + "/services.d/*.toml"}})
			if err != nil || len(problems) == 0 {
				t.Fatalf("%v, %v", problems, err)
			}
			said := (&sources.RejectedError{Problems: problems}).Error()
			if strings.Contains(said, "sesame") != c.quoted || !strings.Contains(said, "/x.toml:4") {
				t.Errorf("said %q", said)
			}
		})
	}
}
