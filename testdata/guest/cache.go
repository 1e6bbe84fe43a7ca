package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// cacheDir is where kernels and apt's own state are kept; never in the tree.
func cacheDir() (string, error) {
	base := os.Getenv("SVCPROXY_CACHE")
	if base == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache folder: %w (set SVCPROXY_CACHE)", err)
		}
		base = filepath.Join(user, "svcproxy")
	}
	return filepath.Abs(filepath.Join(base, "guest"))
}

// A kernel is an unpacked, trimmed kernel package.
type kernel struct {
	Dir     string // holds vmlinux and lib/modules/RELEASE
	Release string // as uname -r says it
	Target  target
}

func (k kernel) vmlinux() string { return filepath.Join(k.Dir, "vmlinux") }
func (k kernel) modules() string { return filepath.Join(k.Dir, "lib/modules", k.Release) }

// openKernel checks that dir holds a whole kernel.
func openKernel(dir string, t target) (kernel, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return kernel{}, err
	}
	found, err := filepath.Glob(filepath.Join(dir, "lib/modules/*/modules.dep"))
	if err != nil || len(found) != 1 {
		return kernel{}, fmt.Errorf("%s: want one lib/modules/*/modules.dep, found %d", dir, len(found))
	}
	k := kernel{Dir: dir, Release: filepath.Base(filepath.Dir(found[0])), Target: t}
	if _, err := os.Stat(k.vmlinux()); err != nil {
		return kernel{}, err
	}
	return k, nil
}

// cachedKernel is the target's kernel that `guest kernel` made current.
func cachedKernel(t target) (kernel, error) {
	cache, err := cacheDir()
	if err != nil {
		return kernel{}, err
	}
	k, err := openKernel(filepath.Join(cache, "kernels", t.String(), "current"), t)
	if errors.Is(err, os.ErrNotExist) {
		return kernel{}, fmt.Errorf("no kernel of %s in %s: run `guest kernel --suite %s --arch %s` (make guest)", t, cache, t.Suite, t.Arch)
	}
	return k, err
}
