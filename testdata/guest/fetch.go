package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// kernelCommand puts a suite's newest kernel into the cache.
func kernelCommand(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("guest kernel", flag.ExitOnError)
	t := targetFlags(fs)
	refresh := fs.Bool("refresh", false, "ask the archive for a newer one although the cache has one")
	fs.Parse(args)
	if !*refresh {
		if k, err := cachedKernel(*t); err == nil {
			fmt.Printf("guest: kernel %s of %s is in %s\n", k.Release, t, k.Dir)
			return nil
		}
	}
	if err := need("apt-get", "apt-cache", "dpkg-deb", "depmod", "xz"); err != nil {
		return err
	}
	k, err := fetchKernel(ctx, *t)
	if err != nil {
		return fmt.Errorf("fetch the kernel of %s: %w", t, err)
	}
	fmt.Printf("guest: kernel %s of %s is now in %s\n", k.Release, t, k.Dir)
	return nil
}

func need(tools ...string) error {
	for _, t := range tools {
		if _, err := exec.LookPath(t); err != nil {
			return fmt.Errorf("%w; run `guest install` on a Debian machine", err)
		}
	}
	return nil
}

// fetchKernel downloads, unpacks and trims in a temporary folder and renames it
// at the end, so that a kernel in the cache is a whole one.
func fetchKernel(ctx context.Context, t target) (kernel, error) {
	cache, err := cacheDir()
	if err != nil {
		return kernel{}, err
	}
	home := filepath.Join(cache, "kernels", t.String())
	if err := os.MkdirAll(home, 0o755); err != nil {
		return kernel{}, err
	}
	a, err := openApt(ctx, filepath.Join(cache, "apt", t.String()), t)
	if err != nil {
		return kernel{}, err
	}
	name, err := a.dependency(ctx, "linux-image-"+t.Arch, "linux-image-")
	if err != nil {
		return kernel{}, err
	}
	tmp, err := os.MkdirTemp(home, ".unpack-")
	if err != nil {
		return kernel{}, err
	}
	defer os.RemoveAll(tmp)
	// Since Linux 7 the image's package is empty, and depends on these.
	parts := []string{name}
	for _, prefix := range []string{"linux-base-", "linux-binary-", "linux-modules-"} {
		if part, err := a.dependency(ctx, name, prefix); err == nil {
			parts = append(parts, part)
		}
	}
	id, full := "", filepath.Join(tmp, "full")
	for _, part := range parts {
		fmt.Printf("guest: downloading %s from %s\n", part, t)
		deb, err := a.download(ctx, part, tmp)
		if err != nil {
			return kernel{}, err
		}
		if id == "" {
			id = deb[:len(deb)-len(".deb")]
		}
		if err := tool(ctx, "dpkg-deb", "-x", filepath.Join(tmp, deb), full); err != nil {
			return kernel{}, err
		}
	}
	if err := trimKernel(ctx, full, filepath.Join(tmp, id)); err != nil {
		return kernel{}, err
	}
	return adopt(home, filepath.Join(tmp, id), id, t)
}

// adopt moves an unpacked kernel into place and points "current" at it.
func adopt(home, unpacked, id string, t target) (kernel, error) {
	dir := filepath.Join(home, id)
	if _, err := openKernel(dir, t); err != nil {
		if err := os.RemoveAll(dir); err != nil {
			return kernel{}, err
		}
		if err := os.Rename(unpacked, dir); err != nil {
			return kernel{}, err
		}
	}
	link := filepath.Join(filepath.Dir(unpacked), "current")
	if err := os.Symlink(id, link); err != nil {
		return kernel{}, err
	}
	if err := os.Rename(link, filepath.Join(home, "current")); err != nil {
		return kernel{}, err
	}
	return openKernel(dir, t)
}

// trimKernel turns unpacked kernel packages into what openKernel wants.
func trimKernel(ctx context.Context, full, dir string) error {
	// Debian 13's packages have their modules where a merged /usr has them.
	if modules := filepath.Join(full, "usr/lib/modules"); exists(modules) {
		if err := errors.Join(mkdirs(filepath.Join(full, "lib")), os.Rename(modules, filepath.Join(full, "lib/modules"))); err != nil {
			return err
		}
	}
	found, err := filepath.Glob(filepath.Join(full, "lib/modules/*"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("want one lib/modules/*, found %d", len(found))
	}
	release := filepath.Base(found[0])
	vmlinuz := filepath.Join(full, "boot/vmlinuz-"+release)
	if !exists(vmlinuz) { // since Linux 7
		vmlinuz = filepath.Join(found[0], "vmlinuz")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	image, err := extractKernel(ctx, vmlinuz)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "vmlinux"), image, 0o644); err != nil {
		return err
	}
	if err := tool(ctx, "depmod", "-b", full, release); err != nil {
		return err
	}
	if err := trimModules(full, dir, release); err != nil {
		return fmt.Errorf("trim modules of %s: %w", release, err)
	}
	return tool(ctx, "depmod", "-b", dir, release)
}

// tool runs a program and gives its output only when it fails.
func tool(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
