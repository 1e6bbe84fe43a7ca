package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// probe is a virtual server in the discard prefix (RFC 6666), which no node serves.
var probe = kernel.VirtualAt(netip.MustParseAddrPort("[100::1]:1"), kernel.TCP)

// Scheduler makes the kernel load a scheduler. If the kernel does not have it, the error is
// ErrScheduler with the name of the module.
//
// Nothing is created. Module files are not read, because they do not say what is built in or may be
// loaded. Instead the kernel is asked to add an IPv6 virtual server with an impossible netmask. It
// looks for the scheduler first and fails with ENOENT, then at the netmask and fails with EINVAL
// (ip_vs_add_service).
func (t *Table) Scheduler(name string) error {
	if err := t.lookup(); err != nil {
		return err
	}
	if err := loadable(name); err != nil {
		return err
	}
	t.batch.Reset()
	putVirtual(&t.batch, t.family, cmdNewService, kernel.Virtual{
		Key: probe, Scheduler: name, Flags: kernel.FlagPersistent, Netmask: 0,
	})
	err := t.conn.Send(&t.batch)
	var refused *nl.KernelError
	switch {
	case errors.Is(err, unix.EINVAL) && name != "":
		return nil
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w %q: the kernel has no module ip_vs_%s", ErrScheduler, name, name)
	case errors.As(err, &refused):
		return fmt.Errorf("asking for scheduler %s: %w", name, refused)
	case err == nil:
		return t.unprobe(name)
	}
	return fmt.Errorf("asking for scheduler %s: %w", name, err)
}

// unprobe removes the virtual server of a probe, which no kernel should have accepted.
func (t *Table) unprobe(name string) error {
	t.batch.Reset()
	putVirtualKey(&t.batch, t.family, cmdDelService, probe)
	if err := t.conn.Send(&t.batch); err != nil {
		return fmt.Errorf("removing the virtual server %v that asked for %s: %w", probe, name, err)
	}
	return nil
}

// loadable rejects a scheduler that the kernel must not load by itself, because it would deadlock.
// The kernel calls modprobe while it holds IPVS's lock. lblc and lblcr then wait for the list of
// network namespaces (register_pernet_subsys). A namespace that is just ending holds that list and
// waits for IPVS's lock (cleanup_net, ip_vs_dst_event). IPVS and all later namespaces hang for
// ever. Seen on Linux 6.1 in the stacks. The other schedulers register nothing for each namespace.
func loadable(name string) error {
	if name != "lblc" && name != "lblcr" || loaded(name) {
		return nil
	}
	return fmt.Errorf("%w %q: the module has to be loaded beforehand (modprobe ip_vs_%s)", ErrScheduler, name, name)
}

// loaded reports whether lblc or lblcr is in the kernel. Both have a parameter in every namespace,
// and appear as a module unless they are built in.
func loaded(name string) bool {
	for _, path := range []string{"/proc/sys/net/ipv4/vs/" + name + "_expiration", "/sys/module/ip_vs_" + name} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}
