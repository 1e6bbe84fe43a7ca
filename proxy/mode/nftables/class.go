package nftables

import (
	"fmt"
	"strconv"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// class says how packets to a frontend are handled. Frontends of one class share a chain.
type class struct {
	way        way
	restricted bool   // to source ranges
	choice     string // by hash: "src", "src/24" or "src,sport"; "" at random
	slots      int    // of all endpoints
	local      int    // of those on this node, under policy Local
}

// way says which packets are masqueraded, and which endpoints they may go to. It is a letter in the chain's name.
type way string

const (
	plain    way = "P" // none is masqueraded
	inside   way = "C" // cluster IPs: those that do not come from this node's own workloads
	outside  way = "M" // all
	local    way = "L" // policy Local: the node's own, which with its workloads' go to all endpoints
	fallback way = "F" // the same, but what comes from elsewhere goes to all endpoints, too: none is on this node
	nowhere  way = "N" // there is no endpoint: what comes from the source ranges is refused
)

// seed is that of all hashes. Nodes have the same one, so they send a client to the same endpoint.
const seed = 0x73766370

// name returns the class's part of the chain's name: RLH24-31-31.
func (c class) name() string {
	s := ""
	if c.restricted {
		s = "R"
	}
	s += string(c.way)
	switch {
	case c.choice == byAddrAndPort:
		s += "HP"
	case c.choice == byAddr:
		s += "H"
	case c.choice != "":
		s += "H" + c.choice[len(byAddr)+1:]
	}
	s += "-" + strconv.Itoa(c.slots)
	if c.way == local {
		s += "-" + strconv.Itoa(c.local)
	}
	return s
}

// How a hash chooses.
const (
	byAddr        = "src"
	byAddrAndPort = "src,sport"
)

// choiceOf returns how a frontend's endpoints are chosen: by the client's address for session affinity and the
// schedulers that hash it, else at random.
func choiceOf(f *frontend.Frontends, x *frontend.Front) string {
	v := mode.Virtual(f, x)
	switch {
	case v.Flags&kernel.FlagPersistent != 0 && int(v.Netmask) < x.Key.Family().Bits():
		return fmt.Sprintf("%s/%d", byAddr, v.Netmask)
	case v.Flags&kernel.FlagPersistent != 0:
		return byAddr
	case v.Scheduler != "sh" && v.Scheduler != "mh":
		return ""
	case v.Flags&kernel.FlagSched2 != 0:
		return byAddrAndPort
	}
	return byAddr
}

// chain returns the chain of a class. Its last rule is for a slot that is missing: without it, a port of the host would
// be reached.
func (w *writer) chain(c class) kernel.Chain {
	const fromNode = "-m addrtype --src-type LOCAL "
	masq := "-j MARK --set-xmark " + w.Mark() + "/" + w.Mark()
	var rules []string
	if c.restricted {
		rules = append(rules, "-m set ! --match-set "+w.set(kernel.LoadBalancerSourceCIDR)+" dst,dst,src -j DROP")
	}
	all := w.draw(c.choice, c.slots, 0)
	switch c.way {
	case inside:
		switch {
		case w.workloads == "":
			rules = append(rules, fromNode+masq)
		default:
			rules = append(rules, "! "+w.workloads+masq)
		}
	case outside:
		rules = append(rules, masq)
	case local, fallback:
		if c.slots > 0 && w.workloads != "" {
			rules = append(rules, w.workloads+all)
		}
		rules = append(rules, fromNode+masq)
		if c.slots > 0 {
			rules = append(rules, fromNode+all)
		}
	}
	switch {
	case c.way == nowhere:
		rules = append(rules, w.Reject())
	case c.way != local:
		rules = append(rules, all, w.Reject())
	case c.local > 0:
		rules = append(rules, w.draw(c.choice, c.local, localSlots), w.Reject())
	default:
		rules = append(rules, "-j DROP")
	}
	return w.Chain("nat", w.Config.Names.Balancer(c.name()), rules...)
}

// draw translates to the endpoint of a slot.
func (w *writer) draw(choice string, slots, first int) string {
	rule := "-j DNAT --map " + w.set(kernel.Slots) + " dst,dst "
	if choice == "" || slots == 1 {
		rule += "--random " + strconv.Itoa(slots)
	} else {
		rule += fmt.Sprintf("--hash %s --mod %d --seed %#x", choice, slots, seed)
	}
	if first > 0 {
		rule += " --offset " + strconv.Itoa(first)
	}
	return rule
}
