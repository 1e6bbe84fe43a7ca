package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/relay"
	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/apiserver"
	"github.com/svcproxy/svcproxy/sources/dns"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

// Setup is a configuration with what it depends on at this node. The daemon and the
// commands that read the configuration derive everything else from it.
type Setup struct {
	config.Setup
	Machine
	Version string              // of svcproxy
	Object  frontend.NodeObject // this node in the API server, zero without one
	Tables  *host.Tables        // opened as root before the process changed its user, else nil

	// Writes: Open may try rules in the kernel to see whether a mode can be used.
	Writes bool
	// KubeProxyTables: see host.Options.
	KubeProxyTables bool
	// Fallbacks are the modes that Open could not use.
	Fallbacks []status.Fallback
	used      mode.Mode // of Open; nil before

	keeper   *statefile.Keeper // of all files in stateDir; nil in commands
	lastMode string            // of the last run; "" if Open is not to wait for it
	tried    bool              // in this boot, by this version
	log      *slog.Logger      // of Open with lastMode

	relay     *relay.Relay // of Open in mode userspace; nil in other modes, and in commands
	inherited []*os.File   // listeners that the last process left with systemd, for the relay
}

// Machine is what the rules depend on and the configuration does not say.
type Machine struct {
	hostname string
	IPv6     bool // the host has it
	// Connection tracking's sizes can be written only in the first network namespace.
	ownsConntrackMax, ownsConntrackBuckets bool
	noDevice, native                       bool // see mode.Config
	// without changes the mode's configuration for what the kernel lacks.
	without []func(*mode.Config)
}

func thisMachine() (Machine, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return Machine{}, fmt.Errorf("reading the host name: %w", err)
	}
	return Machine{hostname: hostname, IPv6: host.HasIPv6(), ownsConntrackMax: true, ownsConntrackBuckets: true}, nil
}

// Load reads the configuration once. If it is not valid, the error says so and Setup
// has its warnings.
func Load(flags *config.Flags, version string) (Setup, error) {
	m, err := thisMachine()
	if err != nil {
		return Setup{}, err
	}
	s, err := config.Load(flags)
	return Setup{Setup: s, Machine: m, Version: version}, err
}

// Facts are what the warnings about services depend on: parts of the configuration and of
// the Node object, and the addresses and gateways of n. n may be zero.
func (s Setup) Facts(n kernel.Node) sources.HostFacts {
	c, forward := s.Config, sources.Forward("")
	if s.Mode() == mode.IPVS {
		forward = sources.Forward(c.IPVS.Forward) // the other modes warn themselves
	}
	return proxy.OnNode(sources.HostFacts{
		Mode: s.Mode(), NodeName: s.Node(), LocalCIDRs: slices.Concat(c.Node.LocalCIDRs, s.Object.PodCIDRs),
		Scheduler: c.IPVS.Scheduler, Forward: forward, MasqueradeMark: 1 << c.IPTables.MasqueradeBit,
		ClusterIPsKeepClients: len(c.ClusterCIDR) == 0 && !c.IPTables.MasqueradeAll && s.Mode() != mode.Userspace,
		NodePorts:             s.nodePortAddrs(), Own: ownPorts(c), Moved: c.Announce.Mode == announce.VRRP,
	}, n)
}

// nodePortAddrs are where node ports are served. The kernel tells the primary addresses that the configuration does
// not.
func (s Setup) nodePortAddrs() sources.NodePortAddrs {
	c := s.forMode()
	at := sources.NodePortAddrs{
		CIDRs:    c.Frontends.NodePortAddresses,
		Loopback: c.LocalhostNodePorts && s.Mode() == mode.IPTables,
	}
	if c.Frontends.NodePortPrimary {
		n := c.Frontends.Primary(kernel.Node{})
		at.Primary = slices.DeleteFunc([]netip.Addr{n.Primary4, n.Primary6}, func(a netip.Addr) bool { return !a.IsValid() })
	}
	return at
}

// ownPorts are those where svcproxy listens itself, but for the health check node ports of services.
func ownPorts(c config.Config) (own []sources.Listener) {
	for _, l := range []struct {
		at  netip.AddrPort
		key string
	}{{c.HealthzBindAddress, "healthzBindAddress"}, {c.MetricsBindAddress, "metricsBindAddress"}} {
		if l.at.IsValid() {
			own = append(own, sources.Listener{Addr: l.at.Addr(), Port: l.at.Port(), Protocol: sources.TCP, Program: l.key})
		}
	}
	return own
}

// Node is the node's name, as an API server has it.
func (s Setup) Node() string { return s.Config.NodeName(s.hostname) }

// SetNode takes what the API server says of this node.
func (s *Setup) SetNode(n manifest.Node) { s.Object = nodeObject(n) }

func nodeObject(n manifest.Node) frontend.NodeObject {
	return frontend.NodeObject{Zone: n.Zone, Addresses: n.Addresses, PodCIDRs: n.PodCIDRs}
}

// forMode is the configuration of the frontends and the mode on this machine.
func (s Setup) forMode() mode.Config {
	c := s.Config.ForMode()
	c.Frontends.IPv6, c.Frontends.Object = s.IPv6, s.Object
	c.NoDevice, c.Native = s.noDevice, s.native
	for _, change := range s.without {
		change(&c)
	}
	if s.ownsConntrackMax {
		c.Conntrack.Max = s.Config.Conntrack.Max(runtime.NumCPU())
	}
	if s.ownsConntrackBuckets {
		c.Conntrack.Buckets = mode.Buckets(c.Conntrack.Max)
	}
	return c
}

// Want is the kernel state that a table calls for on node n.
func (s Setup) Want(t sources.Table, n kernel.Node) kernel.State {
	f, c := s.Fronts(t, n), s.forMode()
	return new(mode.Limits).Add(s.mode().State(f, c), f, c.Names)
}

// WantOf is Want with the announcements of a svcproxy that starts now: those of VIPs that the kernel does not
// announce yet wait for announce.holdUp.
func (s Setup) WantOf(t sources.Table, have *kernel.Observed) kernel.State {
	f := s.Fronts(t, have.Node)
	want := new(mode.Limits).Add(s.mode().State(f, s.forMode()), f, s.Config.Names())
	in := announce.Input{
		Frontends: f, Want: &want, Have: have, WhyNot: s.mode().WhyNot, Starts: readStarts(s.Config.RuntimeDir),
	}
	if d := openNodeDrain(s.Config.StateDir).State(); d != nil {
		in.Drained = d.Since
	}
	d, _, _ := announce.Step(s.Config.ForAnnounce(), announce.Memory{}, in, time.Now())
	want.Announcements = d.Routes
	return want
}

// Fronts is what node n serves of a table.
func (s Setup) Fronts(t sources.Table, n kernel.Node) *frontend.Frontends {
	return frontend.List(t, s.placed(n), s.forMode().Frontends)
}

// placed returns n with the configured zone.
func (s Setup) placed(n kernel.Node) kernel.Node {
	n.Zone = s.Config.Node.Zone
	return n
}

// ServiceFiles are the names and globs of all service files, with the tables that programs set.
func (s Setup) ServiceFiles() []string {
	paths, tables := s.Config.File.Paths, storeIn(s.Config.StateDir)
	if _, err := os.Stat(tables.Dir); err == nil {
		paths = append(slices.Clone(paths), tables.Pattern())
	}
	return paths
}

// Files are the options of the file source.
func (s Setup) Files() file.Options {
	f := s.Config.File
	return file.Options{
		Optional: s.Config.APIServer.Enabled, Paths: s.ServiceFiles(), Lists: f.Lists,
		Watch: f.Watch, Debounce: f.Debounce,
		Resync: s.Config.ConfigSyncPeriod,
		Keep:   filepath.Join(config.LastGood(s.Config.StateDir).Dir, "services"), Keeper: s.keeper,
	}
}

// DNS are the options for names among the backends.
func (s Setup) DNS() dns.Options {
	c := s.Config.DNS
	return dns.Options{
		Policy:  dns.Policy{MinTTL: c.MinTTL, MaxTTL: max(c.MinTTL, c.MaxTTL), Keep: c.Keep, EmptyGrace: c.EmptyGrace},
		Servers: c.Servers, Keep: filepath.Join(s.Config.StateDir, dns.FileName), Keeper: s.keeper,
	}
}

// APIServer are the options of the API server source.
func (s Setup) APIServer() apiserver.Options {
	c := s.Config.ClientConnection
	return apiserver.Options{
		Kubeconfig: c.Kubeconfig, Master: c.Master, ContentType: c.ContentType, AcceptContentTypes: c.AcceptContentTypes,
		QPS: c.QPS, Burst: c.Burst, Resync: s.Config.ConfigSyncPeriod, EmptyGrace: s.Config.APIServer.EmptyGrace,
		ProxyName: s.Config.APIServer.ProxyName,
		NodeName:  s.Node(), UserAgent: "svcproxy/" + s.Version,
	}
}

// Supported returns an error if this build cannot do what the configuration asks for.
func (s Setup) Supported() error {
	if _, err := mode.Choose(s.Config.Mode, modes()...); err != nil {
		return err
	}
	if s.Config.APIServer.Enabled && !apiserver.Built {
		return &kernel.MissingError{What: "this svcproxy was built without the API server source",
			Hint: "set sources.apiserver.enabled = false, or install the full build"}
	}
	return nil
}

// OwnsDevice refuses a device with our name if no record of a run says that it is ours.
// A sync would remove its addresses.
func (s Setup) OwnsDevice(ctx context.Context, k *host.Kernel, names kernel.Names) error {
	if last, ok, _ := host.LastNames(s.Config.StateDir); ok && last == names {
		return nil
	}
	foreign, err := k.ForeignAddrs(ctx)
	if err != nil || len(foreign) == 0 {
		return err
	}
	return &cli.Error{
		Code: cli.Config,
		Err: fmt.Errorf("device %s has %s, the first %s, and no sign that svcproxy or kube-proxy made it: they would be "+
			"removed",
			names.Device, addresses(len(foreign)), foreign[0].Addr),
		Hint: fmt.Sprintf("choose another ipvs.deviceName, or remove the device: ip link del %s", names.Device),
	}
}

func addresses(n int) string {
	if n == 1 {
		return "1 address"
	}
	return fmt.Sprintf("%d addresses", n)
}
