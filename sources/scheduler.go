package sources

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// schedulers are the schedulers of Linux (net/netfilter/ipvs/ip_vs_*.c), by the names that IPVS gives them.
var schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "fo", "ovf", "mh", "twos"}

// Schedulers returns the names of all schedulers that IPVS has. A kernel may lack some.
func Schedulers() []string { return slices.Clone(schedulers) }

// CheckScheduler returns an error, with a hint, if IPVS has no scheduler with this name.
func CheckScheduler(name string) error {
	if slices.Contains(schedulers, name) {
		return nil
	}
	hint := "must be one of " + strings.Join(schedulers, ", ")
	switch l := strings.ToLower(name); {
	case slices.Contains(schedulers, l):
		hint = fmt.Sprintf("did you mean %q?", l)
	case name == "ip_hash":
		hint = `did you mean "sh", which chooses by the client's address?`
	}
	return fmt.Errorf("scheduler %q is not known, %s", name, hint)
}

// DefaultScheduler is for services that have no weights: those of an API server, as in kube-proxy.
const DefaultScheduler = "rr"

// buckets has for schedulers that hash how many entries their tables have with the defaults of Linux
// (CONFIG_IP_VS_SH_TAB_BITS, CONFIG_IP_VS_DH_TAB_BITS, CONFIG_IP_VS_MH_TAB_INDEX). An endpoint without an entry gets
// no connection, and no virtual server with more real servers than entries can be changed to mh.
var buckets = map[string]int{"sh": 256, "dh": 256, "mh": 4093}

// SchedulerOn returns the scheduler of the service on a node with this default, "" for none: then it is wrr for one of
// a file, also if all weights are equal, as wrr is rr then. So weights of orders, agents and slow starts count, and
// none of them changes the scheduler, which refuses new connections for a moment.
func (s *Service) SchedulerOn(node string) string {
	switch {
	case s.Scheduler != "":
		return s.Scheduler
	case node != "":
		return node
	case s.Weighted:
		return "wrr"
	}
	return DefaultScheduler
}

// DifferentWeights reports whether endpoints that do not drain have different weights.
func DifferentWeights(endpoints []Endpoint) bool {
	least, most := uint32(math.MaxUint32), uint32(0)
	for i := range endpoints {
		if w := endpoints[i].Weight; w != 0 {
			least, most = min(least, w), max(most, w)
		}
	}
	return least < most
}

// IgnoresWeights reports whether a scheduler treats all weights but 0 as equal. Under each of them an
// endpoint of weight 0 gets no new connections. See the kernel's ip_vs_rr.c, ip_vs_lc.c and ip_vs_dh.c.
func IgnoresWeights(scheduler string) bool {
	return scheduler == "rr" || scheduler == "lc" || scheduler == "dh"
}

// SchedulerFlags are the flags of the schedulers sh and mh. With FlagsGiven they are those of the service, which may be
// none.
type SchedulerFlags uint8

// The flags. With FlagFallback a client whose endpoint has weight 0 or is full gets another one; without it, it is
// refused. With FlagPort connections from several ports of one client are spread.
const (
	FlagFallback SchedulerFlags = 1 << iota
	FlagPort
	FlagsGiven
)

// SchedulerFlagWords are the words of ipvsadm for the flags.
var SchedulerFlagWords = []string{"sh-fallback", "sh-port", "mh-fallback", "mh-port"}

// Words returns the words of ipvsadm for the flags of a scheduler. For one without flags they are those of sh.
func (f SchedulerFlags) Words(scheduler string) []string {
	if scheduler != "mh" {
		scheduler = "sh"
	}
	words := []string{}
	if f&FlagFallback != 0 {
		words = append(words, scheduler+"-fallback")
	}
	if f&FlagPort != 0 {
		words = append(words, scheduler+"-port")
	}
	return words
}

// text is "default", "none", "fallback", "port" or "fallback and port".
func (f SchedulerFlags) text() string {
	switch f & (FlagFallback | FlagPort) {
	case FlagFallback:
		return "fallback"
	case FlagPort:
		return "port"
	case FlagFallback | FlagPort:
		return "fallback and port"
	}
	if f == 0 {
		return "default"
	}
	return "none"
}

// ParseSchedulerFlag returns the flag that a word of ipvsadm stands for, and the scheduler that has it.
func ParseSchedulerFlag(word string) (f SchedulerFlags, scheduler string, err error) {
	scheduler, name, _ := strings.Cut(word, "-")
	switch {
	case !slices.Contains(SchedulerFlagWords, word):
		return 0, "", fmt.Errorf("%q is not one of %s", word, strings.Join(SchedulerFlagWords, ", "))
	case name == "port":
		return FlagPort, scheduler, nil
	}
	return FlagFallback, scheduler, nil
}

// schedulerFlags applies the rules about scheduler flags and one-packet scheduling.
func (v *validation) schedulerFlags(s *Service) {
	if s.SchedulerFlags != 0 && !hashesClients(s.Scheduler) {
		v.refuse(s, `schedulerFlags need scheduler = "sh" or "mh": no other has flags`)
	}
	if s.OnePacket && !slices.ContainsFunc(s.Ports, func(p Port) bool { return p.Protocol == UDP }) {
		v.refuse(s, "onePacket needs a UDP port: IPVS balances packets alone over UDP only")
	}
}

// schedulerFlags warns of flags with which clients are refused, and of what the mode does not have.
func (j *judgement) schedulerFlags(s *Service) {
	if s.SchedulerFlags != 0 && s.SchedulerFlags&FlagFallback == 0 && hashesClients(s.Scheduler) {
		j.doubt(s, "schedulerFlags without %q: clients of an endpoint that drains, is down or is full are refused",
			s.Scheduler+"-fallback")
	}
	switch {
	case !s.OnePacket:
	case j.host.onlyMasquerades():
		j.doubt(s, "onePacket has no effect: in mode %s all datagrams of a flow go to one endpoint", j.host.Mode)
	case !s.Forwarding(j.host.Forward).Unchanged():
		j.doubt(s, `onePacket with masquerading: IPVS forgets each datagram, so replies do not reach the client: right for `+
			`protocols without replies, else forward = %q`, Direct)
	}
}
