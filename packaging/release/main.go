// Command release makes what a release of svcproxy publishes. It runs in the root of the tree:
//
//	release make FOLDER VERSION [KEY]   all of it; KEY is the fingerprint of a key that gpg has
//	release apt FOLDER KEY              an apt repository of the packages in FOLDER/pool, signed
//	release copyright                   prints packaging/copyright
//
// The same commit gives the same bytes. All times are the commit's, or SOURCE_DATE_EPOCH, also those of signatures:
// the key must be older than the commit. After a release its commit gets a tag like v0.1.0, by which packaging/build
// names the trees that follow. Packages of earlier releases, put into FOLDER/pool before "release apt", stay in the
// repository.
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// architectures are those of the packages, as Go and Debian name them.
var architectures = []string{"amd64", "arm64"}

func run(out io.Writer, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "copyright":
		modules, err := linked()
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, copyright(modules))
		return err
	case len(args) == 3 && args[0] == "apt":
		when, err := commitTime()
		if err != nil {
			return err
		}
		return repository(args[1], signer{args[2], when})
	case (len(args) == 3 || len(args) == 4) && args[0] == "make":
		return makeRelease(args[1], args[2], strings.Join(args[3:], ""), architectures)
	}
	return errors.New("usage: release make FOLDER VERSION [KEY], release apt FOLDER KEY, or release copyright")
}

// versions are those that a release may have, as Debian and rpm both sort them: 0.2.0~rc1 is before 0.2.0.
var versions = regexp.MustCompile(`^\d+\.\d+\.\d+(~rc\d+)?$`)

// makeRelease fills a folder. Without a key there are no signatures, and no apt repository, which apt would refuse.
func makeRelease(folder, version, key string, architectures []string) error {
	if !versions.MatchString(version) {
		return fmt.Errorf("%q is not a version like 0.1.0 or 0.2.0~rc1", version)
	}
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	released, _, _ := strings.Cut(version, "~")
	notes, err := section(string(changes), released)
	if err != nil {
		return err
	}
	when, err := commitTime()
	if err != nil {
		return err
	}
	build := exec.Command("packaging/build", append([]string{folder}, architectures...)...)
	build.Env = append(os.Environ(), "VERSION="+version, fmt.Sprintf("SOURCE_DATE_EPOCH=%d", when.Unix()))
	if err := output(build, nil); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "release-notes.md"), []byte(notes), 0o644); err != nil {
		return err
	}
	modules, err := linked()
	if err != nil {
		return err
	}
	for _, arch := range architectures {
		name := filepath.Join(folder, fmt.Sprintf("svcproxy-%s-linux-%s", version, arch))
		bom, err := billOfMaterials(name+".tar.gz", version, when, modules)
		if err != nil {
			return err
		}
		if err := os.WriteFile(name+".cdx.json", bom, 0o644); err != nil {
			return err
		}
	}
	if err := writeSums(folder); err != nil {
		return err
	}
	if key == "" {
		fmt.Fprintln(os.Stderr, "release: not signed, and no apt repository: no key is given")
		return nil
	}
	s := signer{key, when}
	sums := filepath.Join(folder, sumsFile)
	if err := s.sign(sums, sums+".asc", "--detach-sign", "--armor"); err != nil {
		return err
	}
	pool := filepath.Join(folder, "apt", "pool")
	packages, err := filepath.Glob(filepath.Join(folder, "*.deb"))
	if err := errors.Join(err, os.MkdirAll(pool, 0o755)); err != nil {
		return err
	}
	for _, p := range packages {
		if err := os.Link(p, filepath.Join(pool, filepath.Base(p))); err != nil {
			return err
		}
	}
	return repository(filepath.Join(folder, "apt"), s)
}

// section returns the text of a version in the changelog.
func section(changelog, version string) (string, error) {
	_, text, found := strings.Cut(changelog, "\n## "+version+"\n")
	if !found {
		return "", fmt.Errorf("CHANGELOG.md has no section %q", version)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return strings.TrimSpace(text) + "\n", nil
}

// commitTime returns SOURCE_DATE_EPOCH, or when the last commit was made.
func commitTime() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		var out bytes.Buffer
		if err := output(exec.Command("git", "log", "-1", "--format=%ct"), &out); err != nil {
			return time.Time{}, err
		}
		text = out.String()
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}

const sumsFile = "SHA256SUMS"

// writeSums writes the sums of a folder's files, as sha256sum -c reads them.
func writeSums(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), sumsFile) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), e.Name())
	}
	return os.WriteFile(filepath.Join(folder, sumsFile), []byte(sums.String()), 0o644)
}

// output runs a program. What it prints goes to out, or nowhere, and its errors are ours.
func output(cmd *exec.Cmd, out io.Writer) error {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

// goCommand is the go of make's GO.
func goCommand(args ...string) *exec.Cmd {
	return exec.Command(cmp.Or(os.Getenv("GO"), "go"), args...)
}
