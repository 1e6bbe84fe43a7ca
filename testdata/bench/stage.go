package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// openFiles is how far a program may raise its limit of open files. Mode userspace listens at 5,000 VIPs.
const openFiles = 65536

// stage removes two costs of the guest that would be measured with the programs:
// reading files from the host, and waiting for name servers that do not exist.
func stage(binary string) error {
	// keepalived and others ask who they are; /etc/hosts has this one.
	if err := unix.Sethostname([]byte("localhost")); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	if limit.Max = max(limit.Max, openFiles); err == nil {
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
	if err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	files := []string{binary, binary + "-noapiserver"}
	for _, tool := range []string{"ipset", "ipvsadm", "ip", "iptables", "ip6tables", "iptables-legacy", "keepalived", "haproxy", "conntrack", "ss", "modprobe"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			return fmt.Errorf("%w: `make bench` installs it", err)
		}
		files = append(files, path)
	}
	// ipset reads the first two again for each entry, to look up protocol and port names.
	files = append(files, "/etc/protocols", "/etc/services", "/etc/nsswitch.conf", "/etc/hosts")
	for _, f := range files {
		if err := copyUp(f); err != nil {
			return err
		}
	}
	return trackMore()
}

// trackMore lets connection tracking hold what flows fills it with. The limit is
// the machine's, and read-only inside a namespace.
func trackMore() error {
	if out, err := exec.Command("modprobe", "nf_conntrack").CombinedOutput(); err != nil {
		return fmt.Errorf("modprobe nf_conntrack: %w: %s", err, out)
	}
	return os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_max", []byte("1000000"), 0)
}

// copyUp moves a file of the host's from the share into the guest's memory: the
// overlay does so when its mode is set.
func copyUp(path string) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Chmod(path, info.Mode())
}
