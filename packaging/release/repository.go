package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// signer signs with a key of gpg's, at the time of the commit: the same commit gives the same signatures.
type signer struct {
	key  string // a fingerprint
	when time.Time
}

// sign signs a file into another.
func (s signer) sign(from, to string, how ...string) error {
	args := append([]string{"--batch", "--yes", "--local-user", s.key, "--digest-algo", "SHA512",
		"--faked-system-time", fmt.Sprintf("%d!", s.when.Unix()), "--output", to}, how...)
	return output(exec.Command("gpg", append(args, from)...), nil)
}

// The suite and the component of the repository, as sources.list names them.
const suite, component = "stable", "main"

// repository makes an apt repository of the packages in a folder's pool, of all versions that are there. apt trusts it
// by the key in svcproxy.asc.
func repository(folder string, s signer) error {
	dists := filepath.Join(folder, "dists", suite)
	if err := os.RemoveAll(dists); err != nil {
		return err
	}
	for _, arch := range architectures {
		dir := filepath.Join(dists, component, "binary-"+arch)
		var index, packed bytes.Buffer
		if err := archive(folder, &index, "--arch", arch, "packages", "pool"); err != nil {
			return err
		}
		z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		_, err := z.Write(index.Bytes())
		if err := errors.Join(err, z.Close(), os.MkdirAll(dir, 0o755),
			os.WriteFile(filepath.Join(dir, "Packages"), index.Bytes(), 0o644),
			os.WriteFile(filepath.Join(dir, "Packages.gz"), packed.Bytes(), 0o644)); err != nil {
			return err
		}
	}
	var release bytes.Buffer
	args := []string{"release", "."}
	for _, field := range []string{"Origin=svcproxy", "Label=svcproxy", "Suite=" + suite, "Codename=" + suite,
		"Components=" + component, "Architectures=" + strings.Join(architectures, " "),
		"Date=" + s.when.Format("Mon, 02 Jan 2006 15:04:05 UTC")} {
		args = append([]string{"-o", "APT::FTPArchive::Release::" + field}, args...)
	}
	if err := archive(dists, &release, args...); err != nil {
		return err
	}
	name := filepath.Join(dists, "Release")
	public := filepath.Join(folder, "svcproxy.asc")
	return errors.Join(
		os.WriteFile(name, release.Bytes(), 0o644),
		s.sign(name, filepath.Join(dists, "InRelease"), "--clear-sign"),
		s.sign(name, name+".gpg", "--detach-sign", "--armor"),
		output(exec.Command("gpg", "--batch", "--yes", "--armor", "--output", public, "--export", s.key), nil),
	)
}

// archive runs apt-ftparchive in a folder.
func archive(folder string, out *bytes.Buffer, args ...string) error {
	cmd := exec.Command("apt-ftparchive", args...)
	cmd.Dir = folder
	return output(cmd, out)
}
