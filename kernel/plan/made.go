package plan

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// attests says whether a virtual server is as the record has it: scheduler, flags,
// timeout and netmask are equal, and every real server masquerades, or all of them are
// as they were made. A different one, which another program made in its place, stays foreign.
func attests(made, have *kernel.Virtual, reals kernel.Reals, digests []kernel.VirtualDigest) bool {
	if made == nil || *made != *have {
		return false
	}
	own := reals.Of(have.Key)
	if masquerade(own) {
		return true
	}
	i, found := slices.BinarySearchFunc(digests, have.Key, func(d kernel.VirtualDigest, k kernel.VirtualKey) int {
		return d.Virtual.Compare(k)
	})
	return found && digests[i].Digest == kernel.DigestOf(have, own)
}

func masquerade(reals []kernel.Real) bool {
	return !slices.ContainsFunc(reals, func(r kernel.Real) bool { return r.Forward != kernel.Masquerade })
}

// Digests returns those of the owned virtual servers that have a real server that does
// not masquerade, for a Record.
func Digests(o *kernel.Observed, owned []kernel.VirtualKey) []kernel.VirtualDigest {
	if !slices.ContainsFunc(o.Reals.Runs(), func(run []kernel.Real) bool { return !masquerade(run) }) {
		return nil
	}
	var digests []kernel.VirtualDigest
	made := Made(o, owned)
	for i := range made {
		if own := o.Reals.Of(made[i].Key); !masquerade(own) {
			digests = append(digests, kernel.VirtualDigest{Virtual: made[i].Key, Digest: kernel.DigestOf(&made[i], own)})
		}
	}
	return digests
}

// ChangesOwned says whether some op may change which virtual servers are owned, or
// their Digests.
func ChangesOwned(n kernel.Names, ops []kernel.Op) bool {
	return slices.ContainsFunc(ops, func(o kernel.Op) bool {
		switch v := o.Object.(type) {
		case kernel.Virtual:
			return true
		case kernel.Entry:
			return n.IsSet(v.Set, kernel.IPv4, kernel.VirtualServer) || n.IsSet(v.Set, kernel.IPv6, kernel.VirtualServer)
		case kernel.Real:
			was, changed := o.Was.(kernel.Real)
			return v.Forward != kernel.Masquerade || changed && was.Forward != kernel.Masquerade
		}
		return false
	})
}

// Making returns the owned virtual servers as they will be after ops, sorted. It is nil
// if ops add or change none.
func Making(o *kernel.Observed, owned []kernel.VirtualKey, ops []kernel.Op) []kernel.Virtual {
	n := 0
	for i := range ops {
		if makes(&ops[i]) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	making := make([]kernel.Op, 0, n)
	for i := range ops {
		if makes(&ops[i]) {
			making = append(making, ops[i])
		}
	}
	after := kernel.State{Virtuals: Made(o, owned)}
	kernel.Rows[kernel.KindVirtual].Objects.Follow(&after, making)
	return after.Virtuals
}

func makes(o *kernel.Op) bool {
	return o.Verb != kernel.Remove && o.Object.Kind() == kernel.KindVirtual
}

// Made returns the owned virtual servers that exist, which a Record remembers. If all
// are owned it is the reading's own slice. owned are those of the reading before.
func Made(o *kernel.Observed, owned []kernel.VirtualKey) []kernel.Virtual {
	own := ownershipOf(o, owned)
	for i := range o.Virtuals {
		if own.has(&o.Virtuals[i]) {
			continue
		}
		made := slices.Clone(o.Virtuals[:i])
		for i++; i < len(o.Virtuals); i++ {
			if own.has(&o.Virtuals[i]) {
				made = append(made, o.Virtuals[i])
			}
		}
		return made
	}
	return o.Virtuals
}
