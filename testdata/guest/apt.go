package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// An apt queries the archives of this machine's configuration with its own
// state. It installs nothing and does not change the machine's package lists.
type apt struct {
	options []string
}

const debianKeys = "/usr/share/keyrings/debian-archive-keyring.gpg"

// openApt writes a sources.list for the suite under dir and updates it.
func openApt(ctx context.Context, dir string, t target) (apt, error) {
	list, err := machinesSources(ctx, t.Suite)
	if err != nil {
		return apt{}, err
	}
	for _, d := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return apt{}, err
		}
	}
	sources, status := filepath.Join(dir, "sources.list"), filepath.Join(dir, "status")
	if err := errors.Join(os.WriteFile(sources, []byte(list), 0o644), os.WriteFile(status, nil, 0o644)); err != nil {
		return apt{}, err
	}
	a := apt{options: []string{
		"-qq",
		"-o", "Dir::Etc::sourcelist=" + sources, "-o", "Dir::Etc::sourceparts=-",
		"-o", "Dir::State::lists=" + filepath.Join(dir, "lists"), "-o", "Dir::State::status=" + status,
		"-o", "Dir::Cache=" + dir, "-o", "Dir::Cache::archives=" + filepath.Join(dir, "archives"),
		"-o", "APT::Architecture=" + t.Arch, "-o", "APT::Architectures::=" + t.Arch,
		"-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none",
	}}
	return a, a.run(ctx, "", "update")
}

// machinesSources is the sourcesList of this machine.
func machinesSources(ctx context.Context, suite string) (string, error) {
	cmd := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
	cmd.Stderr = os.Stderr
	targets, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("apt-get indextargets: %w", err)
	}
	return sourcesList(string(targets), suite)
}

// sourcesList picks from apt's configured targets ("URI RELEASE COMPONENT" by
// line) those of the suite and its security archive. A suite that is not
// configured (backports) is looked for where its release's main archive is.
func sourcesList(targets, suite string) (string, error) {
	signed := ""
	if _, err := os.Stat(debianKeys); err == nil {
		signed = " [signed-by=" + debianKeys + "]"
	}
	release, _, _ := strings.Cut(suite, "-")
	var list, own string
	found := false
	for line := range strings.Lines(targets) {
		f := strings.Fields(line)
		if len(f) != 3 || f[2] != "main" {
			continue
		}
		if f[1] == suite || f[1] == suite+"-security" || f[1] == suite+"-updates" {
			list += fmt.Sprintf("deb%s %s %s main\n", signed, f[0], f[1])
			found = found || f[1] == suite
		}
		// Another release's archive will do: it has all of Debian's suites.
		if f[1] == release || own == "" && strings.HasSuffix(strings.TrimSuffix(f[0], "/"), "/debian") {
			own = f[0]
		}
	}
	if !found && own == "" {
		return "", fmt.Errorf("none of this machine's apt sources is a Debian archive, so there is no %s", suite)
	}
	if !found {
		list += fmt.Sprintf("deb%s %s %s main\n", signed, own, suite)
	}
	return list, nil
}

func (a apt) run(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append(a.options[:len(a.options):len(a.options)], args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// dependency is the first package with the prefix that pkg depends on: the real
// package behind one that only names the newest. Old ones leave the archive.
func (a apt) dependency(ctx context.Context, pkg, prefix string) (string, error) {
	cmd := exec.CommandContext(ctx, "apt-cache", append(a.options[:len(a.options):len(a.options)], "depends", pkg)...)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("apt-cache depends %s: %w", pkg, err)
	}
	for line := range bytes.Lines(out) {
		if name, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("Depends: ")); ok && bytes.HasPrefix(name, []byte(prefix)) {
			return string(name), nil
		}
	}
	return "", fmt.Errorf("%s depends on no %s*: %s", pkg, prefix, out)
}

// download fetches a package into dir, checked against the signed lists, and
// returns its file name.
func (a apt) download(ctx context.Context, pkg, dir string) (string, error) {
	if err := a.run(ctx, dir, "download", pkg); err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(dir, pkg+"_*.deb"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("apt-get download %s left %d files", pkg, len(found))
	}
	return filepath.Base(found[0]), nil
}
