package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// packages are Debian packages: those that run the guest, and the independent
// tools with which the tests and the demo read the kernel and make traffic.
var packages = []string{
	"qemu-system-x86", "kmod", "xz-utils",
	"ipvsadm", "ipset", "iptables", "nftables", "conntrack", "iproute2", "iputils-ping", "procps", "curl", "busybox", "strace", "openssl",
	"etcd-server", "prometheus", "chromium", "keepalived", "bird2", "frr", "knot", "ansible-core", "ansible-lint",
	// For the packages: a root with systemd to install them in, and what reads them.
	"mmdebstrap", "rpm", "lintian", "rpmlint", "mandoc", "zsh", "fish", "bash-completion",
}

// install adds the packages that are missing, of ours and of those that are named,
// and nothing else.
func install(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("guest install", flag.ExitOnError)
	fs.Parse(args)
	packages := append(slices.Clone(packages), fs.Args()...)
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		return fmt.Errorf("this machine has no dpkg; install by hand what Debian calls: %s", strings.Join(packages, " "))
	}
	missing := missingPackages(ctx, packages)
	if len(missing) == 0 {
		fmt.Println("guest: all Debian packages are installed")
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("not root; as root run: apt-get install --no-install-recommends %s", strings.Join(missing, " "))
	}
	fmt.Println("guest: installing", strings.Join(missing, " "))
	// A stale list names versions that have left the archive. One broken
	// third-party source must not stop Debian's own packages: install decides.
	updateErr := aptGet(ctx, "update")
	err := aptGet(ctx, append([]string{"install", "--yes", "--no-install-recommends"}, missing...)...)
	if err != nil {
		return errors.Join(updateErr, err)
	}
	return nil
}

func missingPackages(ctx context.Context, packages []string) []string {
	// dpkg-query fails if it does not know a package, but still prints the others.
	out, _ := exec.CommandContext(ctx, "dpkg-query", append([]string{"-W", "-f", "${db:Status-Abbrev}${Package}\n"}, packages...)...).Output()
	installed := strings.Split(string(out), "\n")
	return slices.DeleteFunc(slices.Clone(packages), func(p string) bool { return slices.Contains(installed, "ii "+p) })
}

func aptGet(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w", args[0], err)
	}
	return nil
}
