package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// kernelCommand puts a suite's newest kernel into the cache.
func kernelCommand(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("guest kernel", flag.ExitOnError)
	suite := suiteFlag(fs)
	refresh := fs.Bool("refresh", false, "ask the archive for a newer one although the cache has one")
	fs.Parse(args)
	if !*refresh {
		if k, err := cachedKernel(*suite); err == nil {
			fmt.Printf("guest: kernel %s of %s is in %s\n", k.Release, *suite, k.Dir)
			return nil
		}
	}
	if err := need("apt-get", "apt-cache", "dpkg-deb", "depmod", "xz"); err != nil {
		return err
	}
	k, err := fetchKernel(ctx, *suite)
	if err != nil {
		return fmt.Errorf("fetch the kernel of %s: %w", *suite, err)
	}
	fmt.Printf("guest: kernel %s of %s is now in %s\n", k.Release, *suite, k.Dir)
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
func fetchKernel(ctx context.Context, suite string) (kernel, error) {
	cache, err := cacheDir()
	if err != nil {
		return kernel{}, err
	}
	home := filepath.Join(cache, "kernels", suite)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return kernel{}, err
	}
	a, err := openApt(ctx, filepath.Join(cache, "apt", suite), suite)
	if err != nil {
		return kernel{}, err
	}
	name, err := a.dependency(ctx, "linux-image-amd64", "linux-image-")
	if err != nil {
		return kernel{}, err
	}
	tmp, err := os.MkdirTemp(home, ".unpack-")
	if err != nil {
		return kernel{}, err
	}
	defer os.RemoveAll(tmp)
	fmt.Printf("guest: downloading %s from %s\n", name, suite)
	deb, err := a.download(ctx, name, tmp)
	if err != nil {
		return kernel{}, err
	}
	id := deb[:len(deb)-len(".deb")]
	if err := unpackKernel(ctx, filepath.Join(tmp, deb), filepath.Join(tmp, id)); err != nil {
		return kernel{}, err
	}
	return adopt(home, filepath.Join(tmp, id), id)
}

// adopt moves an unpacked kernel into place and points "current" at it.
func adopt(home, unpacked, id string) (kernel, error) {
	dir := filepath.Join(home, id)
	if _, err := openKernel(dir); err != nil {
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
	return openKernel(dir)
}

// unpackKernel turns a kernel package into what openKernel wants.
func unpackKernel(ctx context.Context, deb, dir string) error {
	full := dir + ".full"
	if err := tool(ctx, "dpkg-deb", "-x", deb, full); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(full, "boot/vmlinuz-*"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%s: want one boot/vmlinuz-*, found %d", deb, len(found))
	}
	release := filepath.Base(found[0])[len("vmlinuz-"):]
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	elf, err := extractVmlinux(ctx, found[0])
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "vmlinux"), elf, 0o644); err != nil {
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
