package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// bootModules must be in before the root share can be mounted.
var bootModules = []string{"virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"}

// kept are the beginnings of the paths of the modules a node appliance's tests
// may ask for. The rest (wireless, Bluetooth, disks, sound) is most of 400 MB.
var kept = []string{
	"arch/x86/crypto/", "arch/arm64/crypto/", "crypto/", "lib/",
	"fs/9p/", "fs/autofs/", "fs/fscache/", "fs/netfs/", "fs/overlayfs/",
	"drivers/char/hw_random/", "drivers/char/virtio_console.ko", "drivers/virtio/",
	"drivers/net/dummy.ko", "drivers/net/ifb.ko", "drivers/net/ipvlan/", "drivers/net/macvlan.ko", "drivers/net/net_failover.ko",
	"drivers/net/tun.ko", "drivers/net/veth.ko", "drivers/net/virtio_net.ko", "drivers/net/vxlan",
	"net/802/", "net/8021q/", "net/9p/", "net/bridge/", "net/core/", "net/ipv4/", "net/ipv6/", "net/key/", "net/llc/",
	"net/netfilter/", "net/netlink/", "net/packet/", "net/psample/", "net/sched/", "net/sctp/", "net/unix/", "net/xfrm/",
}

// dependencies is modules.dep: a module's path below lib/modules/RELEASE to the
// paths of those it needs, the closest first.
type dependencies map[string][]string

func readDependencies(modules string) (dependencies, error) {
	f, err := os.Open(filepath.Join(modules, "modules.dep"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseDependencies(f)
}

func parseDependencies(r io.Reader) (dependencies, error) {
	d := dependencies{}
	s := bufio.NewScanner(r)
	for s.Scan() {
		path, needs, ok := strings.Cut(s.Text(), ":")
		if !ok {
			return nil, fmt.Errorf("modules.dep: no colon in %q", s.Text())
		}
		d[path] = strings.Fields(needs)
	}
	return d, s.Err()
}

// order lists the paths of the named modules and of what they need, needed ones
// first. A name that is not there is built into the kernel.
func (d dependencies) order(names []string) []string {
	paths := map[string]string{}
	for p := range d {
		paths[moduleName(p)] = p
	}
	var order []string
	for _, n := range names {
		p, ok := paths[n]
		if !ok {
			continue
		}
		chain := append([]string{p}, d[p]...)
		for _, p := range slices.Backward(chain) {
			if !slices.Contains(order, p) {
				order = append(order, p)
			}
		}
	}
	return order
}

// moduleName is the kernel's name for a module file: kernel/x/ip-vs.ko.xz is ip_vs.
func moduleName(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// keep lists, sorted, the modules below the prefixes and all they need.
func (d dependencies) keep(prefixes []string) []string {
	var keep []string
	for path, needs := range d {
		below := strings.TrimPrefix(path, "kernel/")
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(below, p) }) {
			keep = append(append(keep, path), needs...)
		}
	}
	slices.Sort(keep)
	return slices.Compact(keep)
}

// trimModules moves what is worth keeping of from/lib/modules/RELEASE to to.
func trimModules(from, to, release string) error {
	from, to = filepath.Join(from, "lib/modules", release), filepath.Join(to, "lib/modules", release)
	d, err := readDependencies(from)
	if err != nil {
		return err
	}
	for _, path := range append(d.keep(kept), "modules.builtin", "modules.builtin.modinfo", "modules.order") {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, path)), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(from, path), filepath.Join(to, path)); err != nil {
			return err
		}
	}
	return nil
}
