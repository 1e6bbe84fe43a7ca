package kernel

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// SyncDaemon is a thread of IPVS that sends this node's connections to a multicast group, or
// takes those of other nodes from it. A network namespace has at most one of each role.
type SyncDaemon struct {
	Role SyncRole
	Link string // that the packets leave or come by
	ID   uint8  // a backup takes only packets of its own ID; 0 takes all
	// MaxLen is the size in bytes of a packet's payload. 0, in a wanted state, takes the kernel's: what
	// fits in the link's MTU.
	MaxLen uint16
	Group  netip.Addr
	Port   uint16
	TTL    uint8
	// Unbound, in a reading: its link was removed since it started. It sends and receives nothing, also if there is a new
	// link of that name.
	Unbound bool
}

// SyncRole is the role of a SyncDaemon: IP_VS_STATE_MASTER or IP_VS_STATE_BACKUP.
type SyncRole uint8

// The roles.
const (
	SyncMaster SyncRole = 1 // sends
	SyncBackup SyncRole = 2 // receives
)

// String is ipvsadm's word.
func (r SyncRole) String() string {
	switch r {
	case SyncMaster:
		return "master"
	case SyncBackup:
		return "backup"
	}
	return strconv.Itoa(int(r))
}

var syncDaemons = list[SyncDaemon]{
	get:     func(s State) []SyncDaemon { return s.Daemons },
	set:     func(s *State, all []SyncDaemon) { s.Daemons = all },
	compare: SyncDaemon.Compare,
	same:    sameSyncDaemon,
	read:    parseSyncDaemon,
}

// Kind is KindDaemon.
func (SyncDaemon) Kind() Kind { return KindDaemon }

// Compare orders by role.
func (d SyncDaemon) Compare(o SyncDaemon) int { return cmp.Compare(d.Role, o.Role) }

// sameSyncDaemon reports whether two daemons are equal. A MaxLen of 0 equals every other.
func sameSyncDaemon(a, b *SyncDaemon) bool {
	one, other := *a, *b
	if one.MaxLen == 0 || other.MaxLen == 0 {
		one.MaxLen, other.MaxLen = 0, 0
	}
	return one == other
}

// String is what ipvsadm takes.
func (d SyncDaemon) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "--start-daemon %s --mcast-interface %s --syncid %d", d.Role, d.Link, d.ID)
	if d.MaxLen != 0 {
		fmt.Fprintf(&b, " --sync-maxlen %d", d.MaxLen)
	}
	fmt.Fprintf(&b, " --mcast-group %s --mcast-port %d --mcast-ttl %d", d.Group, d.Port, d.TTL)
	if d.Unbound {
		b.WriteString(" # unbound: its link was removed")
	}
	return b.String()
}

func (d SyncDaemon) command(v Verb, _ Object) string {
	if v == Remove {
		return "--stop-daemon " + d.Role.String()
	}
	return d.String()
}

// parseSyncDaemon reads: --start-daemon ROLE, options in any order, and a comment if it is unbound.
func parseSyncDaemon(f []string) (d SyncDaemon, err error) {
	if i := slices.Index(f, "#"); i >= 0 {
		f, d.Unbound = f[:i], true
	}
	if len(f) < 2 || len(f)%2 != 0 {
		return d, fmt.Errorf("want: --start-daemon master|backup, then pairs of --OPTION VALUE")
	}
	switch f[1] {
	case "master":
		d.Role = SyncMaster
	case "backup":
		d.Role = SyncBackup
	default:
		return d, fmt.Errorf("role %q: want master or backup", f[1])
	}
	for i := 2; i < len(f) && err == nil; i += 2 {
		err = d.option(f[i], f[i+1])
	}
	if err == nil && (d.Link == "" || !d.Group.IsValid()) {
		err = fmt.Errorf("want --mcast-interface and --mcast-group")
	}
	return d, err
}

func (d *SyncDaemon) option(name, value string) (err error) {
	number := func(bits int) (n uint64) {
		n, err = strconv.ParseUint(value, 10, bits)
		return n
	}
	switch name {
	case "--mcast-interface":
		d.Link, err = value, CheckDevice(value)
	case "--syncid":
		d.ID = uint8(number(8))
	case "--sync-maxlen":
		d.MaxLen = uint16(number(16))
	case "--mcast-group":
		d.Group, err = netip.ParseAddr(value)
	case "--mcast-port":
		d.Port = uint16(number(16))
	case "--mcast-ttl":
		d.TTL = uint8(number(8))
	default:
		err = fmt.Errorf("no such option")
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", name, value, err)
	}
	return nil
}

// The kernel does not say who started a daemon. So Saved has the text of each daemon that svcproxy
// started, under this prefix and the role.
const savedSync = "ipvs.sync."

// SavedName is the name under which Saved has the daemon. Its value before is "": there was none.
func (d SyncDaemon) SavedName() string { return savedSync + d.Role.String() }

// IsSyncDaemon reports whether a parameter's name is that of a daemon, which is not below /proc/sys.
func IsSyncDaemon(name string) bool { return strings.HasPrefix(name, savedSync) }

// OwnsDaemon reports whether svcproxy started a daemon that a reading has.
func (o *Observed) OwnsDaemon(d SyncDaemon) bool {
	d.Unbound = false
	for _, s := range o.Saved {
		if s.Name == d.SavedName() {
			ours, err := parseSyncDaemon(strings.Fields(s.Ours))
			return err == nil && sameSyncDaemon(&ours, &d)
		}
	}
	return false
}

// checkDaemon says why svcproxy cannot have saved this daemon.
func (s Saved) checkDaemon() error {
	d, err := parseSyncDaemon(strings.Fields(s.Ours))
	if err != nil || s.Before != "" || d.SavedName() != s.Name {
		return fmt.Errorf("%.80q is not a daemon that svcproxy starts", s.Name)
	}
	return nil
}
