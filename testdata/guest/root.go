package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// appliance are Debian's packages in a root that boots by itself: what a node
// has that svcproxy's packages are installed on, and programs that run beside svcproxy.
// rpm is there for the other kind.
var appliance = []string{
	"systemd", "systemd-sysv", "dbus", "udev", "procps", "iproute2", "iptables", "nftables", "ipset", "kmod", "ipvsadm", "conntrack", "iputils-ping", "rpm",
	"keepalived", "bird2", "frr",
}

// withRoot are those that tests and the demo use besides, where they run in the
// root and not in this machine's files.
var withRoot = []string{"curl", "busybox", "strace", "openssl", "knot"}

// packages are those of the target's root.
func (t target) packages() []string {
	if t.release() == defaultSuite && !t.foreign() {
		return appliance
	}
	return slices.Concat(appliance, withRoot)
}

// maskRoot takes out what a guest of minutes does not need: units that wait for
// disks and terminals, and the first boot's own work. Tests start routing daemons themselves.
// Generators make units of disks and of scripts that are older than systemd. Each daemon-reload runs them all, and a package
// has several: it takes an emulated processor 4.4 s without them, 7.7 s with them.
const maskRoot = `
set -e
for unit in getty.target systemd-udev-trigger.service systemd-random-seed.service systemd-update-utmp.service \
	e2scrub_reap.service e2scrub_all.timer fstrim.timer apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer logrotate.timer \
	modprobe@drm.service modprobe@configfs.service modprobe@fuse.service modprobe@dm_mod.service modprobe@loop.service \
	modprobe@efi_pstore.service systemd-pstore.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount \
	dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount; do
	ln -sf /dev/null "$1/etc/systemd/system/$unit"
done
mkdir -p "$1/etc/systemd/system-generators"
for generator in "$1"/usr/lib/systemd/system-generators/*; do
	ln -sf /dev/null "$1/etc/systemd/system-generators/${generator##*/}"
done
for unit in bird frr keepalived; do rm -f "$1/etc/systemd/system/multi-user.target.wants/$unit.service"; done
echo 0123456789abcdef0123456789abcdef > "$1/etc/machine-id"
echo guest > "$1/etc/hostname"
`

// rootCommand makes a root with systemd, for --systemd.
func rootCommand(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("guest root", flag.ExitOnError)
	t := targetFlags(fs)
	fs.Parse(args)
	dir, err := rootDir(*t)
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); err == nil {
		fmt.Println("guest: a root of", t, "with systemd is in", dir)
		return nil
	}
	if err := need("mmdebstrap", "apt-get"); err != nil {
		return err
	}
	fmt.Println("guest: making a root of", t, "with systemd in", dir)
	return makeRoot(ctx, *t, dir)
}

// rootDir is where the root of a target is, named after what is in it so that a
// change of that makes a new one.
func rootDir(t target) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	t.Suite = t.release()
	id := sha256.Sum256([]byte(strings.Join(t.packages(), " ") + maskRoot))
	return filepath.Join(cache, "roots", fmt.Sprintf("%s-%x", t, id[:6])), nil
}

// makeRoot builds in a temporary folder and renames it at the end.
func makeRoot(ctx context.Context, t target, dir string) error {
	if os.Geteuid() != 0 {
		return errors.New("a root's files belong to root: make it as root")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	list, err := machinesSources(ctx, t.release())
	if err != nil {
		return err
	}
	if t.foreign() {
		forget, err := interpret(t)
		if err != nil {
			return err
		}
		defer forget()
	}
	building, err := os.MkdirTemp(filepath.Dir(dir), ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(building)
	args := []string{"--quiet", "--mode=root", "--variant=apt", "--skip=check/qemu", "--architectures=" + t.Arch, "--include=" + strings.Join(t.packages(), ","), t.release(), building}
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

// interpret has this machine's kernel run the target's programs by QEMU, for the
// packages' own scripts, until forget is called.
func interpret(t target) (forget func(), err error) {
	const folder, name = "/proc/sys/fs/binfmt_misc/", "svcproxy-arm64"
	if exists(folder + "qemu-aarch64") {
		return func() {}, nil // Debian's own, by binfmt-support
	}
	if !exists(folder + "register") {
		if err := mount("binfmt_misc", folder, "binfmt_misc", 0, ""); err != nil {
			return nil, err
		}
	}
	os.WriteFile(folder+name, []byte("-1"), 0) // of one that was killed
	// An ELF file of 64 bits, little endian, for machine 183. F: the interpreter is opened now, so that a chroot has it.
	const register = ":" + name + `:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00` +
		`:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/usr/bin/qemu-aarch64-static:OCF`
	if err := os.WriteFile(folder+"register", []byte(register), 0); err != nil {
		return nil, fmt.Errorf("have the kernel run programs of %s: %w", t.Arch, err)
	}
	return func() { os.WriteFile(folder+name, []byte("-1"), 0) }, nil
}
