package link

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// proxy is one proxy neighbour.
type proxy struct {
	key  addrKey
	ours bool
}

// ReadNeighbors returns the IPv6 proxy neighbours, sorted. Foreign ones were made by other programs
// and are never changed; the node answers for their addresses already.
func (l *Links) ReadNeighbors() (ours, foreign []kernel.Neighbor, err error) {
	all, err := l.proxies()
	if err != nil {
		return nil, nil, err
	}
	for _, p := range all {
		name, err := l.name(p.key.index)
		switch {
		case errors.Is(err, unix.ENODEV):
			continue // the device was removed, and its neighbours with it
		case err != nil:
			return nil, nil, fmt.Errorf("looking for device %d: %w", p.key.index, err)
		}
		n := kernel.Neighbor{Addr: p.key.addr, Link: name}
		if p.ours {
			ours = append(ours, n)
		} else {
			foreign = append(foreign, n)
		}
	}
	kernel.SortFunc(ours, compareNeighbor)
	kernel.SortFunc(foreign, compareNeighbor)
	return ours, foreign, nil
}

func compareNeighbor(a, b kernel.Neighbor) int {
	return cmp.Or(cmp.Compare(a.Link, b.Link), a.Addr.Compare(b.Addr))
}

// name returns the name of a device from the last Read, or asks the kernel for it.
func (l *Links) name(index int) (string, error) {
	if name, ok := l.names[index]; ok {
		return name, nil
	}
	d, err := l.lookupIndex(index)
	return d.name, err
}

func (l *Links) proxies() (all []proxy, err error) {
	err = l.dump("proxy neighbours", func(b *nl.Batch) {
		b.Begin(unix.RTM_GETNEIGH, 0)
		b.Raw(ndMsg(0))
	}, func() { all = all[:0] }, func(p []byte) error {
		x, ok, err := decodeProxy(p)
		if ok {
			all = append(all, x)
		}
		return err
	})
	return all, err
}

// decodeProxy decodes an IPv6 proxy neighbour. ok is false for any other neighbour.
func decodeProxy(p []byte) (x proxy, ok bool, err error) {
	if len(p) < unix.SizeofNdMsg {
		return proxy{}, false, fmt.Errorf("neighbour message of %d bytes", len(p))
	}
	// A kernel without IPv6 lists the neighbours of all families instead.
	if kernel.Family(p[0]) != kernel.IPv6 || p[10]&unix.NTF_PROXY == 0 {
		return proxy{}, false, nil
	}
	x.key.index = int(int32(binary.NativeEndian.Uint32(p[4:])))
	a := nl.ParseAttrs(p[unix.SizeofNdMsg:])
	for a.Next() && err == nil {
		switch a.Type() {
		case unix.NDA_DST:
			x.key.addr, err = ip(kernel.IPv6, a.Bytes())
		case netlink.NDA_PROTOCOL:
			x.ours = a.U8() == kernel.RouteProtocol
		}
	}
	if err == nil {
		err = a.Err()
	}
	// An entry without a device answers on all of them. We make no such entry.
	return x, err == nil && x.key.addr.IsValid() && x.key.index != 0, err
}

// putNeighbor first checks who made an existing entry, because the kernel does not: adding takes an
// entry over, and removing looks at nothing but its address. One dump serves a whole call of Apply.
func (a *applying) putNeighbor(i int, verb kernel.Verb, o kernel.Neighbor) error {
	if !o.Addr.Is6() {
		return fmt.Errorf("%s: for IPv4 the kernel answers ARP without an entry", o.Addr)
	}
	index, err := a.anyIndex(o.Link)
	if err != nil {
		return err
	}
	if err := a.findProxies(); err != nil {
		return err
	}
	key := addrKey{o.Addr, index}
	ours, there := a.proxied[key]
	switch {
	case there && !ours:
		return &ForeignNeighborError{o}
	case verb == kernel.Add && there:
		return unix.EEXIST
	case verb == kernel.Remove && !there:
		return unix.ENOENT
	case verb == kernel.Add:
		a.batch.Begin(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE)
		a.proxied[key] = true
	case verb == kernel.Remove:
		a.batch.Begin(unix.RTM_DELNEIGH, 0)
		delete(a.proxied, key)
	default:
		return errors.New("a proxy neighbour cannot be changed")
	}
	a.batch.Raw(ndMsg(index))
	a.batch.Attr(unix.NDA_DST, o.Addr.AsSlice())
	if verb == kernel.Add {
		a.batch.U8(netlink.NDA_PROTOCOL, kernel.RouteProtocol)
	}
	a.batch.End()
	a.sent = append(a.sent, i)
	return nil
}

// findProxies fills proxied, once.
func (a *applying) findProxies() error {
	if a.proxied != nil {
		return nil
	}
	a.send() // the dump uses the same buffer
	all, err := a.proxies()
	a.batch.Reset()
	if err != nil {
		return err
	}
	a.proxied = make(map[addrKey]bool, len(all))
	for _, p := range all {
		a.proxied[p.key] = p.ours
	}
	return nil
}

// anyIndex returns the index of a device that need not be ours. It asks once in a call of Apply.
func (a *applying) anyIndex(name string) (int, error) {
	if index, ok := a.indexes[name]; ok {
		return index, nil
	}
	a.send() // the look-up must see what the batch changes
	d, err := a.lookup(name)
	if err != nil {
		return 0, fmt.Errorf("looking for device %s: %w", name, err)
	}
	if a.indexes == nil {
		a.indexes = make(map[string]int)
	}
	a.indexes[name] = d.index
	return d.index, nil
}

// ndMsg returns a struct ndmsg of an IPv6 proxy neighbour.
func ndMsg(index int) []byte {
	p := make([]byte, unix.SizeofNdMsg)
	p[0], p[10] = unix.AF_INET6, unix.NTF_PROXY
	binary.NativeEndian.PutUint32(p[4:], uint32(index))
	return p
}
