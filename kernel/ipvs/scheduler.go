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

// probe is a virtual server in the prefix that discards (RFC 6666), where nobody has one.
var probe = kernel.VirtualKey{Addr: netip.MustParseAddrPort("[100::1]:1"), Proto: kernel.TCP}

// Scheduler makes the kernel load a scheduler and returns nil if it has it, ErrScheduler with the
// name of the missing module if not.
//
// Nothing is created to find out, nor are module files read, which say neither what is built in
// nor what may be loaded. The kernel is asked to add an IPv6 virtual server with an impossible
// netmask: it looks for the scheduler first and refuses with ENOENT, then at the netmask and
// refuses with EINVAL (ip_vs_add_service).
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

// unprobe takes the virtual server back that no kernel should have accepted.
func (t *Table) unprobe(name string) error {
	t.batch.Reset()
	putVirtualKey(&t.batch, t.family, cmdDelService, probe)
	if err := t.conn.Send(&t.batch); err != nil {
		return fmt.Errorf("removing the virtual server %v that asked for scheduler %s: %w", probe, name, err)
	}
	return nil
}

// loadable refuses a scheduler that the kernel must not be left to load by itself: it deadlocks.
// It calls modprobe with IPVS's lock held; lblc and lblcr then wait for the list of network
// namespaces (register_pernet_subsys); and a namespace that is just ending holds that list and
// waits for IPVS's lock (cleanup_net, ip_vs_dst_event). All three stand still for ever, and with
// them IPVS and every later namespace. Seen on Linux 6.1, by their stacks; the other schedulers
// register nothing for each namespace.
func loadable(name string) error {
	if name != "lblc" && name != "lblcr" || loaded(name) {
		return nil
	}
	return fmt.Errorf("%w %q: the module has to be loaded beforehand (modprobe ip_vs_%s)", ErrScheduler, name, name)
}

// loaded says whether lblc or lblcr is in the kernel: both have a parameter in every namespace,
// and show as a module unless built in.
func loaded(name string) bool {
	for _, path := range []string{"/proc/sys/net/ipv4/vs/" + name + "_expiration", "/sys/module/ip_vs_" + name} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}
