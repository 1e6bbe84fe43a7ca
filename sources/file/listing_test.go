package file

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestList follows a path with a link in it: which files are found, and which changes matter.
func TestList(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"real/s.d", "etc"} {
		if err := os.MkdirAll(at(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"real/s.d/1.toml", "real/s.d/a[b].toml", "real/s.d/.x.toml", "real/s.d/note", "etc/s.toml"} {
		if err := os.WriteFile(at(f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../etc/../real", at("etc/link")); err != nil {
		t.Fatal(err)
	}

	var visited []string
	l := list([]string{at("etc/li*/s.d/*.toml"), at("etc/s.toml"), at("etc/s.*"), at("no/such/dir/x.toml"), at("no/such/*.toml")}, false, "",
		func(dir string) { visited = append(visited, dir) })
	if want := []string{at("etc/link/s.d/1.toml"), at("etc/link/s.d/a[b].toml"), at("etc/s.toml")}; !slices.Equal(l.files, want) {
		t.Errorf("files %q", l.files)
	}
	if want := []string{at("no/such/dir/x.toml")}; !slices.Equal(l.missing, want) || len(l.problems) > 0 {
		t.Errorf("missing %q, problems %v", l.missing, l.problems)
	}
	for _, d := range []string{"/", dir, at("etc"), at("real"), at("real/s.d")} {
		if !slices.Contains(visited, d) {
			t.Errorf("%s was not visited", d)
		}
	}
	if slices.Contains(visited, at("etc/link")) || len(visited) != len(slices.Compact(slices.Sorted(slices.Values(visited)))) {
		t.Errorf("visited %q", visited)
	}
	for path, want := range map[string]bool{
		"etc": true, "etc/link": true, "etc/lib": true, "etc/s.toml": true, "real": true, "real/s.d": true, "no": true,
		"real/s.d/2.toml": true, "real/s.d/.2.toml": false, "real/s.d/note": false, "etc/passwd": false, "real/x": false, "yes": false,
	} {
		if l.concerns(at(path)) != want {
			t.Errorf("%s concerns: %t", path, !want)
		}
	}
}

// TestListBesideFiles: a glob of directories passes over the files beside them, and a literal path is no glob.
func TestListBesideFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(at("team"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"team/s.toml", "README", "a[b].toml", "ab.toml"} {
		if err := os.WriteFile(at(f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path           string
		literal        bool
		files, missing []string
	}{
		{"*/s.toml", false, []string{"team/s.toml"}, nil},
		{"README/s.toml", false, []string{"README/s.toml"}, nil}, // reading it says why it cannot be read
		{"a[b].toml", false, []string{"ab.toml"}, nil},
		{"a[b].toml", true, []string{"a[b].toml"}, nil},
		{"b[a].toml", true, nil, []string{"b[a].toml"}},
	} {
		l := list([]string{at(c.path)}, c.literal, "", func(string) {})
		for _, x := range []struct{ got, want []string }{{l.files, c.files}, {l.missing, c.missing}} {
			for i, name := range x.want {
				x.want[i] = at(name)
			}
			if !slices.Equal(x.got, x.want) {
				t.Errorf("%s, literal %t: %q, want %q", c.path, c.literal, x.got, x.want)
			}
		}
	}
}

// TestReadGrowing: a file whose content differs in size from when it was opened is being written. Files in /proc are
// always such: regular, of size 0, and not empty.
func TestReadGrowing(t *testing.T) {
	if l := read("/proc/self/status"); !errors.Is(l.err, errChanging) {
		t.Errorf("%q, %v", l.content.Data, l.err)
	}
}
