package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// programs skips a test without these programs, or fails it in make test.
func programs(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil && os.Getenv("SVCPROXY_NOSKIP") != "" {
			t.Fatalf("%v (make release-tools)", err)
		} else if err != nil {
			t.Skip(err)
		}
	}
}

func must(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", program, args, err, out)
	}
	return string(out)
}

// TestCopyright: packaging/copyright has what is linked, and no more. A module with no licence, or one that nobody has
// looked at, is an error.
func TestCopyright(t *testing.T) {
	t.Chdir("../..")
	modules, err := linked()
	if err != nil {
		t.Fatal(err)
	}
	if have, err := os.ReadFile("packaging/copyright"); err != nil || string(have) != copyright(modules) {
		t.Errorf("packaging/copyright is not of what is linked (%v): go run ./packaging/release copyright >packaging/copyright", err)
	}
	config, err := os.ReadFile("packaging/nfpm.yaml")
	if err != nil || !strings.Contains(string(config), "\nlicense: "+all(modules)+"\n") {
		t.Errorf("packaging/nfpm.yaml (%v) does not have license: %s", err, all(modules))
	}
	for _, text := range []string{"", "Do what you like.", "GNU General Public License\nPermission is hereby granted, free of charge, to any " +
		"person obtaining a copy"} {
		dir := t.TempDir()
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if m, err := readLicence("example.com/new", []string{dir}); err == nil {
			t.Errorf("%q is %q", text, m.names)
		}
	}
}

func TestSection(t *testing.T) {
	const changelog = "# Changelog\n\n## 0.2.0\n\nSecond.\n\n### More\n\n- One.\n\n## 0.1.0\n\nFirst.\n"
	for version, want := range map[string]string{"0.2.0": "Second.\n\n### More\n\n- One.\n", "0.1.0": "First.\n", "0.3.0": ""} {
		if text, err := section(changelog, version); text != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", version, text, err)
		}
	}
}

// TestVersions: versions of the tree between releases are in order for dpkg and for rpm.
func TestVersions(t *testing.T) {
	programs(t, "git", "dpkg", "rpm")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "packaging"), 0o755); err != nil {
		t.Fatal(err)
	}
	build, err := os.ReadFile("../build")
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "packaging/build"), build, 0o755)); err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) {
		must(t, "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	}
	git("init", "-q")
	var have []string
	for _, tag := range []string{"", "v0.1.0-rc1", "v0.1.0", "", "v0.1.1", "other", "v0.2.0"} {
		git("commit", "-q", "--allow-empty", "-m", "change")
		if tag != "" {
			git("tag", tag)
		}
		have = append(have, strings.TrimSpace(must(t, filepath.Join(dir, "packaging/build"), "--version")))
	}
	want := regexp.MustCompile(`^0~1\.\w{10} 0~2\.\w{10} 0\.1\.0 0\.1\.0\+1\.g\w+ 0\.1\.1 0\.1\.1\+1\.g\w+ 0\.2\.0$`)
	if !want.MatchString(strings.Join(have, " ")) {
		t.Errorf("versions %q", have)
	}
	have = slices.Insert(have, 2, "0.1.0~rc1")
	for i := 1; i < len(have); i++ {
		must(t, "dpkg", "--compare-versions", have[i-1]+"-1", "lt", have[i]+"-1")
		if said := must(t, "rpm", "--eval", "%{lua:print(rpm.vercmp('"+have[i-1]+"', '"+have[i]+"'))}"); said != "-1\n" {
			t.Errorf("rpm: %s and %s: %s", have[i-1], have[i], said)
		}
	}
	for version, valid := range map[string]bool{"0.1.0": true, "0.1.0~rc1": true, "v0.1.0": false, "0.1": false, "0.1.0-1": false, "": false} {
		if versions.MatchString(version) != valid {
			t.Errorf("%q is taken: %v", version, !valid)
		}
	}
}

// commit is when the tests' commit was made.
var commit = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// newKey makes a key in a new home of gpg's, older than the commit, and returns its fingerprint.
func newKey(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp("", "gpg") // a short path: there is a socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GNUPGHOME", home)
	t.Cleanup(func() {
		exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run()
		os.RemoveAll(home)
	})
	must(t, "gpg", "--batch", "--quiet", "--faked-system-time", "20260101T000000", "--passphrase", "", "--quick-generate-key", "release <release@example.com>", "ed25519", "sign", "never")
	list := must(t, "gpg", "--batch", "--with-colons", "--list-keys")
	found := regexp.MustCompile(`(?m)^fpr:+(\w+):`).FindStringSubmatch(list)
	if found == nil {
		t.Fatalf("no key in %s", list)
	}
	return found[1]
}

// apt is an apt that knows no repository but one.
type apt struct{ root string }

func newApt(t *testing.T, repository, key string) apt {
	a := apt{t.TempDir()}
	for _, dir := range []string{"etc/apt/apt.conf.d", "etc/apt/preferences.d", "state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(a.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	line := "deb [arch=amd64 signed-by=" + key + "] file:" + repository + " stable main\n"
	if err := os.WriteFile(filepath.Join(a.root, "sources.list"), []byte(line), 0o644); err != nil {
		t.Fatal(err)
	}
	return a
}

// get runs apt-get in the folder of a.
func (a apt) get(args ...string) error {
	options := []string{"-q"}
	for _, o := range []string{"Dir=" + a.root, "Dir::State=" + a.root + "/state", "Dir::State::status=/dev/null", "Dir::Cache=" + a.root + "/cache",
		"Dir::Etc::sourcelist=" + a.root + "/sources.list", "Dir::Etc::sourceparts=-", "Dir::Bin::Methods=/usr/lib/apt/methods",
		"APT::Architecture=amd64", "APT::Sandbox::User=", "APT::Update::Error-Mode=any"} {
		options = append(options, "-o", o)
	}
	cmd := exec.Command("apt-get", append(options, args...)...)
	cmd.Dir = a.root
	return output(cmd, nil)
}

// wantFrom fails unless apt gets this version from a repository, as a file of these bytes.
func wantFrom(t *testing.T, repository, version, file string) {
	t.Helper()
	a := newApt(t, repository, filepath.Join(repository, "svcproxy.asc"))
	if err := errors.Join(a.get("update"), a.get("download", "svcproxy")); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(file)
	got, gerr := os.ReadFile(filepath.Join(a.root, "svcproxy_"+version+"_amd64.deb"))
	if err != nil || gerr != nil || !bytes.Equal(got, want) {
		t.Errorf("apt gets other bytes: %v, %v", err, gerr)
	}
}

// TestAptRefuses: apt takes the newest package of the repository, and none if a byte differs from what was signed.
func TestAptRefuses(t *testing.T) {
	programs(t, "apt-get", "apt-ftparchive", "gpg", "dpkg-deb")
	tree, folder := t.TempDir(), t.TempDir()
	pool := filepath.Join(folder, "pool")
	if err := errors.Join(os.Mkdir(filepath.Join(tree, "DEBIAN"), 0o755), os.Mkdir(pool, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"0.1.0-1", "0.1.0+1.gabc-1"} {
		control := "Package: svcproxy\nVersion: " + version + "\nArchitecture: amd64\nMaintainer: a <a@example.com>\nDescription: a\n"
		if err := os.WriteFile(filepath.Join(tree, "DEBIAN/control"), []byte(control), 0o644); err != nil {
			t.Fatal(err)
		}
		must(t, "dpkg-deb", "--root-owner-group", "-b", tree, filepath.Join(pool, "svcproxy_"+version+"_amd64.deb"))
	}
	if err := repository(folder, signer{newKey(t), commit}); err != nil {
		t.Fatal(err)
	}
	newest := filepath.Join(pool, "svcproxy_0.1.0+1.gabc-1_amd64.deb")
	wantFrom(t, folder, "0.1.0+1.gabc-1", newest)

	public, err := os.ReadFile(filepath.Join(folder, "svcproxy.asc"))
	other := t.TempDir() + "/other.asc"
	if err := errors.Join(err, output(exec.Command("gpg", "--batch", "--armor", "--output", other, "--export", newKey(t)), nil)); err != nil {
		t.Fatal(err)
	}
	if theirs, err := os.ReadFile(other); err != nil || bytes.Equal(theirs, public) {
		t.Fatalf("the other key is the same (%v)", err)
	}
	index := "dists/stable/main/binary-amd64/Packages"
	for _, fault := range []struct {
		name, key string
		change    []string // files that get another byte
		remove    []string
	}{
		{name: "another key", key: other},
		{name: "another index", change: []string{index, index + ".gz"}},
		{name: "another package", change: []string{"pool/" + filepath.Base(newest)}},
		{name: "another Release", change: []string{"dists/stable/InRelease", "dists/stable/Release"}},
		{name: "no signature", remove: []string{"dists/stable/InRelease", "dists/stable/Release.gpg"}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(folder)); err != nil {
				t.Fatal(err)
			}
			for _, name := range fault.change {
				name = filepath.Join(copied, name)
				content, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				content[len(content)/2] ^= 1
				if err := os.WriteFile(name, content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range fault.remove {
				if err := os.Remove(filepath.Join(copied, name)); err != nil {
					t.Fatal(err)
				}
			}
			key := filepath.Join(folder, "svcproxy.asc")
			if fault.key != "" {
				key = fault.key
			}
			a := newApt(t, copied, key)
			err := a.get("update")
			if err == nil {
				err = a.get("download", "svcproxy")
			}
			if err == nil {
				t.Error("apt takes it")
			}
			t.Log(err)
		})
	}
}

// TestRelease makes a release of this tree, for amd64. With SVCPROXY_RELEASE=whole it makes it twice, for both
// architectures, and wants the same bytes and linters that say nothing. The appliance asks them about amd64.
func TestRelease(t *testing.T) {
	if _, err := os.Stat("../../bin/nfpm"); err != nil || testing.Short() {
		t.Skip("builds packages (make bin/nfpm)")
	}
	programs(t, "apt-get", "apt-ftparchive", "gpg", "sha256sum")
	whole := os.Getenv("SVCPROXY_RELEASE") == "whole"
	t.Chdir("../..")
	t.Setenv("SOURCE_DATE_EPOCH", "1782907200") // commit
	archs := architectures[:1]
	if whole {
		programs(t, "lintian", "rpmlint")
		archs = architectures
	}
	key, dir := newKey(t), t.TempDir()
	if err := makeRelease(dir, "0.1.0", key, archs); err != nil {
		t.Fatal(err)
	}
	want := []string{"SHA256SUMS", "SHA256SUMS.asc", "apt", "release-notes.md"}
	for _, arch := range archs {
		rpm := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
		want = append(want, "svcproxy-0.1.0-1."+rpm+".rpm", "svcproxy-0.1.0-linux-"+arch+".cdx.json", "svcproxy-0.1.0-linux-"+arch+".tar.gz",
			"svcproxy_0.1.0-1_"+arch+".deb")
		if whole {
			must(t, "lintian", "--allow-root", "--fail-on=error,warning", "--pedantic", filepath.Join(dir, "svcproxy_0.1.0-1_"+arch+".deb"))
			must(t, "rpmlint", "--strict", "--config", "packaging/rpm/rpmlint.toml", filepath.Join(dir, "svcproxy-0.1.0-1."+rpm+".rpm"))
		}
		wantParts(t, filepath.Join(dir, "svcproxy-0.1.0-linux-"+arch+".cdx.json"))
	}
	slices.Sort(want)
	if have := names(t, dir); !slices.Equal(have, want) {
		t.Errorf("the release has %q, want %q", have, want)
	}
	check := exec.Command("sha256sum", "--check", "--strict", sumsFile)
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	must(t, "gpg", "--batch", "--verify", filepath.Join(dir, sumsFile+".asc"), filepath.Join(dir, sumsFile))
	wantFrom(t, filepath.Join(dir, "apt"), "0.1.0-1", filepath.Join(dir, "svcproxy_0.1.0-1_amd64.deb"))

	program, err := fromTarball(filepath.Join(dir, "svcproxy-0.1.0-linux-amd64.tar.gz"), "svcproxy")
	file := filepath.Join(t.TempDir(), "svcproxy")
	if err := errors.Join(err, os.WriteFile(file, program, 0o755)); err != nil {
		t.Fatal(err)
	}
	if said := must(t, file, "version"); said != "svcproxy 0.1.0\n" {
		t.Errorf("svcproxy version says %q", said)
	}
	if !whole {
		return
	}
	again := t.TempDir()
	t.Setenv("TZ", "Asia/Tokyo")
	if err := makeRelease(again, "0.1.0", key, archs); err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		a, err := os.ReadFile(filepath.Join(dir, name))
		b, berr := os.ReadFile(filepath.Join(again, name))
		if !bytes.Equal(a, b) {
			t.Errorf("%s has other bytes the second time", name)
		}
		return errors.Join(err, berr)
	})
	if err != nil {
		t.Error(err)
	}
}

func names(t *testing.T, dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// wantParts fails unless a bill of materials has svcproxy, Go, and libraries of svcproxy with their licences.
func wantParts(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b struct {
		BomFormat, SpecVersion, SerialNumber string
		Metadata                             struct{ Component part }
		Components                           []part
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	licences := map[string]string{}
	for _, p := range b.Components {
		licences[p.Name] = p.Licences[0]["expression"]
		if p.Version == "" || p.Ref == "" || p.Ref != p.URL {
			t.Errorf("%s: %+v", file, p)
		}
	}
	if b.BomFormat != "CycloneDX" || b.SpecVersion != "1.6" || b.Metadata.Component.Version != "0.1.0" || licences[standard] != "BSD-3-Clause" ||
		licences["github.com/BurntSushi/toml"] != "MIT" || licences["github.com/moby/ipvs"] != "Apache-2.0" || len(licences) < 30 {
		t.Errorf("%s: %s", file, text)
	}
}
