package fake

import (
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/svcproxy/svcproxy/kernel"
)

// own are the kinds of which Linux refuses more than adding what exists and changing
// what does not, or which change other objects. Chains are restored together.
var own = map[kernel.Kind]func(*Kernel, kernel.Op) error{
	kernel.KindSysctl:   (*Kernel).sysctl,
	kernel.KindTimeouts: (*Kernel).timeouts,
	kernel.KindSet:      (*Kernel).set,
	kernel.KindEntry:    (*Kernel).entry,
	kernel.KindSwap:     (*Kernel).swap,
	kernel.KindLink:     (*Kernel).link,
	kernel.KindAddr:     (*Kernel).addr,
	kernel.KindVirtual:  (*Kernel).virtual,
	kernel.KindReal:     (*Kernel).real,
	kernel.KindDaemon:   (*Kernel).daemon,
	kernel.KindFlow:     func(*Kernel, kernel.Op) error { return nil }, // without traffic nothing is tracked
}

// missing is the error of an op on an object that does not exist; ENOENT for kinds
// that are not here.
var missing = map[kernel.Kind]error{
	kernel.KindLink:         syscall.ENODEV,
	kernel.KindAddr:         syscall.EADDRNOTAVAIL,
	kernel.KindRoute:        syscall.ESRCH,
	kernel.KindAnnouncement: syscall.ESRCH,
	kernel.KindVirtual:      syscall.ESRCH,
	kernel.KindDaemon:       syscall.ESRCH,
}

// place adds, changes or removes an object.
func (k *Kernel) place(o kernel.Op) error {
	kind := o.Object.Kind()
	exists := k.find(o.Object) != nil
	switch {
	case o.Verb == kernel.Add && exists:
		return syscall.EEXIST
	case o.Verb != kernel.Add && !exists && missing[kind] != nil:
		return missing[kind]
	case o.Verb != kernel.Add && !exists:
		return syscall.ENOENT
	case o.Verb == kernel.Remove:
		k.delete(o.Object)
	default:
		k.put(o.Object)
	}
	return nil
}

func (k *Kernel) find(o kernel.Object) kernel.Object {
	return kernel.Rows[o.Kind()].Objects.Find(k.state, o)
}
func (k *Kernel) put(o kernel.Object)    { kernel.Rows[o.Kind()].Objects.Put(&k.state, o) }
func (k *Kernel) delete(o kernel.Object) { kernel.Rows[o.Kind()].Objects.Delete(&k.state, o) }

// sysctl sets a parameter. One that is not in the state is made: the fake does not
// know which ones Linux has.
func (k *Kernel) sysctl(o kernel.Op) error {
	s := o.Object.(kernel.Sysctl)
	before, there := k.find(s).(kernel.Sysctl)
	k.put(kernel.Sysctl{Name: s.Name, Value: s.Value})
	k.save(s, before.Value, there)
	return nil
}

// save remembers the value of a parameter before it was changed, if it existed.
func (k *Kernel) save(s kernel.Sysctl, before string, there bool) {
	saved, ours := k.saved[s.Name]
	switch {
	case ours && saved.Before == s.Value:
		delete(k.saved, s.Name)
	case ours:
		saved.Ours = s.Value
		k.saved[s.Name] = saved
	case there && before != s.Value:
		k.saved[s.Name] = kernel.Saved{Name: s.Name, Before: before, Ours: s.Value}
	}
}

// maxTimeout in seconds is what a kernel with HZ 250 accepts: INT_MAX / HZ.
const maxTimeout = 1 << 31 / 250

func (k *Kernel) timeouts(o kernel.Op) error {
	t := o.Object.(kernel.Timeouts)
	if o.Verb != kernel.Change {
		return syscall.EOPNOTSUPP
	}
	if max(t.TCP, t.TCPFin, t.UDP) > maxTimeout {
		return syscall.EINVAL
	}
	for _, p := range t.Parameters() {
		k.save(p, strconv.FormatUint(uint64(*k.state.Timeouts.Field(p.Name)), 10), true)
	}
	k.state.Timeouts = t.Over(k.state.Timeouts)
	return nil
}

func (k *Kernel) set(o kernel.Op) error {
	s := o.Object.(kernel.Set)
	s.Size = 0
	if o.Verb == kernel.Remove && k.state.HasSet(s.Name) {
		if k.named(s.Name) {
			return syscall.EBUSY
		}
		k.state.Entries = k.state.Entries.Where(func(e kernel.Entry) bool { return e.Set != s.Name })
	}
	return k.place(kernel.Op{Verb: o.Verb, Object: s})
}

// named reports whether some rule matches on the set.
func (k *Kernel) named(set string) bool {
	return slices.ContainsFunc(k.state.Chains, func(c kernel.Chain) bool {
		return slices.ContainsFunc(lines(c.Rules), func(rule string) bool {
			return slices.ContainsFunc([]string{"--match-set ", "--map ", "--meter "}, func(option string) bool {
				return strings.Contains(rule+" ", option+set+" ")
			})
		})
	})
}

// entry adds an entry that exists, and removes one that does not, without an error, as
// ipset does without NLM_F_EXCL.
func (k *Kernel) entry(o kernel.Op) error {
	e := o.Object.(kernel.Entry)
	s, exists := k.find(kernel.Set{Name: e.Set}).(kernel.Set)
	switch {
	case !exists:
		return syscall.ENOENT
	case o.Verb == kernel.Remove:
		k.delete(e)
		return nil
	case !fits(s, e):
		return syscall.EINVAL
	case e.Goto != "" && k.find(kernel.Chain{Family: s.Family, Table: k.names.GotoTable(e.Set), Name: e.Goto}) == nil:
		return syscall.ENOENT
	case o.Verb == kernel.Change && (!s.Type.IsMap() || k.find(e) == nil):
		return syscall.ENOENT
	case s.Type != kernel.BitmapPort && k.find(e) == nil && k.state.Entries.Of(e.Set).Len() >= int(s.MaxElem):
		return ErrFull
	}
	k.put(e)
	return nil
}

// fits reports whether an entry has the parts that the set's type needs.
func fits(s kernel.Set, e kernel.Entry) bool {
	if s.Type == kernel.BitmapPort {
		return e == kernel.Entry{Set: e.Set, Port: e.Port}
	}
	if !e.Addr.IsValid() || kernel.FamilyOf(e.Addr) != s.Family {
		return false
	}
	port := e.Proto != 0
	if (e.Goto != "") != (s.Type == kernel.MapIPPort) || (e.ToPort != 0) != (s.Type == kernel.MapIPPortSlot) {
		return false
	}
	switch s.Type {
	case kernel.MapIPPort:
		return port && !e.Second.IsValid()
	case kernel.MapIPPortSlot:
		return port && e.Second.IsSingleIP() && kernel.FamilyOf(e.Second.Addr()) == s.Family
	case kernel.HashIP:
		return !port && !e.Second.IsValid()
	case kernel.HashIPPort:
		return port && !e.Second.IsValid()
	case kernel.HashIPPortIP:
		return port && e.Second.IsSingleIP()
	case kernel.HashNet:
		return e == kernel.NetEntry(e.Set, e.Second.Masked())
	case kernel.HashIPPortNet:
		return port && e.Second.IsValid() && e.Second.Bits() > 0
	}
	return false
}

func (k *Kernel) swap(o kernel.Op) error {
	s := o.Object.(kernel.Swap)
	from, ok := k.find(kernel.Set{Name: s.From}).(kernel.Set)
	to, ok2 := k.find(kernel.Set{Name: s.To}).(kernel.Set)
	if !ok || !ok2 {
		return syscall.ENOENT
	}
	if from.Type != to.Type || from.Family != to.Family {
		return syscall.EINVAL
	}
	from.Name, to.Name = s.To, s.From
	k.put(from)
	k.put(to)
	was := slices.Concat(k.state.Entries.Of(s.From).Slice(), k.state.Entries.Of(s.To).Slice())
	now := slices.Clone(was)
	for i := range now {
		now[i].Set = s.From
		if was[i].Set == s.From {
			now[i].Set = s.To
		}
	}
	slices.SortFunc(was, kernel.Entry.Compare)
	slices.SortFunc(now, kernel.Entry.Compare)
	k.state.Entries = k.state.Entries.With(was, now)
	return nil
}

func (k *Kernel) link(o kernel.Op) error {
	l := o.Object.(kernel.Link)
	if o.Verb == kernel.Change {
		return syscall.EOPNOTSUPP
	}
	err := k.place(o)
	if err == nil && o.Verb == kernel.Remove {
		k.state.Addrs = slices.DeleteFunc(k.state.Addrs, func(a kernel.Addr) bool { return a.Link == l.Name })
	}
	return err
}

func (k *Kernel) addr(o kernel.Op) error {
	if k.find(kernel.Link{Name: o.Object.(kernel.Addr).Link}) == nil {
		return syscall.ENODEV
	}
	return k.place(o)
}

func (k *Kernel) virtual(o kernel.Op) error {
	v := o.Object.(kernel.Virtual)
	if o.Verb != kernel.Remove && k.Schedulers != nil && !k.Schedulers[v.Scheduler] && (o.Verb == kernel.Add) == (k.find(v) == nil) {
		return syscall.ENOENT
	}
	err := k.place(o)
	if err == nil && o.Verb == kernel.Remove {
		k.state.Reals = k.state.Reals.With(k.state.Reals.Of(v.Key), nil)
	}
	return err
}

func (k *Kernel) real(o kernel.Op) error {
	r := o.Object.(kernel.Real)
	switch {
	case k.find(kernel.Virtual{Key: r.Key.Virtual}) == nil:
		return syscall.ESRCH
	case o.Verb != kernel.Remove && r.Tunnel.Kind() == kernel.GUE.Kind() && r.TunnelPort == 0:
		return syscall.EINVAL
	case o.Verb != kernel.Remove && r.Lower > r.Upper:
		return syscall.ERANGE
	}
	return k.place(o)
}

// daemon gives a daemon without a size of packets that of a link with an MTU of 1500, and saves that
// svcproxy started it. The kernel cannot change one: a change stops it and starts another.
func (k *Kernel) daemon(o kernel.Op) error {
	d := o.Object.(kernel.SyncDaemon)
	ours := kernel.Saved{Name: d.SavedName(), Ours: d.String()}
	if d.MaxLen == 0 {
		d.MaxLen = 1472
	}
	err := k.place(kernel.Op{Verb: o.Verb, Object: d})
	switch {
	case err == nil && o.Verb == kernel.Remove:
		delete(k.saved, ours.Name)
	case err == nil:
		k.saved[ours.Name] = ours
	}
	return err
}
