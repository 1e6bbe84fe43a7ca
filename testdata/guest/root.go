package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// appliance are Debian's packages in a root that boots by itself: what a node
// has that svcproxy's packages are installed on, and programs that run beside svcproxy.
// rpm is there for the other kind.
var appliance = []string{
	"systemd", "systemd-sysv", "dbus", "udev", "procps", "iproute2", "iptables", "nftables", "ipset", "kmod", "ipvsadm", "conntrack", "iputils-ping", "rpm",
	"keepalived", "bird2", "frr",
}

// maskRoot takes out what a guest of minutes does not need: units that wait for
// disks and terminals, and the first boot's own work. Tests start routing daemons themselves.
const maskRoot = `
set -e
for unit in getty.target systemd-udev-trigger.service systemd-random-seed.service systemd-update-utmp.service \
	e2scrub_reap.service e2scrub_all.timer fstrim.timer apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
	modprobe@drm.service modprobe@configfs.service modprobe@fuse.service; do
	ln -sf /dev/null "$1/etc/systemd/system/$unit"
done
for unit in bird frr keepalived; do rm -f "$1/etc/systemd/system/multi-user.target.wants/$unit.service"; done
echo 0123456789abcdef0123456789abcdef > "$1/etc/machine-id"
echo guest > "$1/etc/hostname"
`

// rootCommand makes a root with systemd, for --systemd.
func rootCommand(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("guest root", flag.ExitOnError)
	suite := suiteFlag(fs)
	fs.Parse(args)
	dir, err := rootDir(*suite)
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); err == nil {
		fmt.Println("guest: a root of", *suite, "with systemd is in", dir)
		return nil
	}
	if err := need("mmdebstrap", "apt-get"); err != nil {
		return err
	}
	fmt.Println("guest: making a root of", *suite, "with systemd in", dir)
	return makeRoot(ctx, *suite, dir)
}

// rootDir is where the root of a suite is, named after what is in it so that a
// change of that makes a new one.
func rootDir(suite string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	suite, _, _ = strings.Cut(suite, "-") // the kernel may be backports'
	id := sha256.Sum256([]byte(strings.Join(appliance, " ") + maskRoot))
	return filepath.Join(cache, "roots", fmt.Sprintf("%s-%x", suite, id[:6])), nil
}

// makeRoot builds in a temporary folder and renames it at the end.
func makeRoot(ctx context.Context, suite, dir string) error {
	if os.Geteuid() != 0 {
		return errors.New("a root's files belong to root: make it as root")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	suite, _, _ = strings.Cut(suite, "-")
	cmd := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
	targets, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("apt-get indextargets: %w", err)
	}
	list, err := sourcesList(string(targets), suite)
	if err != nil {
		return err
	}
	building, err := os.MkdirTemp(filepath.Dir(dir), ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(building)
	args := []string{"--quiet", "--mode=root", "--variant=apt", "--include=" + strings.Join(appliance, ","), suite, building}
	for line := range strings.Lines(list) {
		args = append(args, strings.TrimSpace(line))
	}
	if err := tool(ctx, "mmdebstrap", args...); err != nil {
		return err
	}
	if err := tool(ctx, "sh", "-c", maskRoot, "sh", building); err != nil {
		return err
	}
	return os.Rename(building, dir)
}
