package apiserver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Build is the folder of kube-apiserver and kube-proxy, compiled from the module in kube/ unless the cache
// has them. The first time takes minutes, of which kube-proxy is a twentieth: 63 of 2,010 packages. Of several
// that want it at once, one builds.
func Build(ctx context.Context) (string, error) {
	source, err := sourceDir(ctx)
	if err != nil {
		return "", err
	}
	key, err := digest(source, "go.mod", "go.sum", "kube-apiserver/main.go", "kube-proxy/main.go")
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "kube-"+key)
	unlock, err := lock(filepath.Join(cache, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	// Renamed when it is whole: a build that was killed leaves nothing that looks done.
	if err := compile(ctx, source, dir+".part"); err != nil {
		return "", err
	}
	if err := os.Rename(dir+".part", dir); err != nil {
		return "", err
	}
	return dir, forget(cache, dir)
}

// sourceDir finds kube/ from any folder of svcproxy's module: the go command knows where that is.
func sourceDir(ctx context.Context) (string, error) {
	out, err := goTool(ctx, "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module's folder: go list: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "testdata/apiserver/kube"), nil
}

func compile(ctx context.Context, source, to string) error {
	cmd := goTool(ctx, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", to+"/", "./...")
	// A build takes ten minutes of processor time: leave the machine usable.
	cmd.Args = append([]string{"nice", cmd.Path}, cmd.Args[1:]...)
	var err error
	if cmd.Path, err = exec.LookPath("nice"); err != nil {
		return err
	}
	cmd.Dir, cmd.Stderr = source, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build kube-apiserver and kube-proxy in %s: %w", source, err)
	}
	return nil
}

// goTool is the go command, also where it is installed but not on PATH.
func goTool(ctx context.Context, args ...string) *exec.Cmd {
	path, err := exec.LookPath("go")
	if err != nil {
		path = "/usr/local/go/bin/go"
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	return cmd
}

func digest(dir string, names ...string) (string, error) {
	h := sha256.New()
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(b), b)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:6]), nil
}

// cacheDir is next to the guest's kernels, never in the tree.
func cacheDir() (string, error) {
	base := os.Getenv("SVCPROXY_CACHE")
	if base == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache folder: %w (set SVCPROXY_CACHE)", err)
		}
		base = filepath.Join(user, "svcproxy")
	}
	dir, err := filepath.Abs(filepath.Join(base, "apiserver"))
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// lock waits for a file that one process at a time can have.
func lock(path string) (unlock func() error, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f.Close, nil
}

// forget removes what earlier versions of kube/ were built into: 170 MB each.
func forget(cache, keep string) error {
	found, err := filepath.Glob(filepath.Join(cache, "kube-????????????"))
	for _, path := range found {
		if path != keep {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}
