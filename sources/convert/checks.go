package convert

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
)

// settle gives the virtual server the check that most of its backends have. In the other formats each backend
// has checks of its own; here a service has one, which a backend may be left out of. A backend never gets the
// question of another one.
func (v *virtual) settle() {
	for i := range v.reals {
		r := &v.reals[i]
		v.place(r)
		v.conceal(r)
	}
	questions, checks := map[sources.Probe]int{}, map[sources.HealthCheck]int{}
	for _, r := range v.reals {
		if r.check != nil {
			questions[question(r.check)]++
			checks[*r.check]++
		}
	}
	count := func(c *sources.HealthCheck) [2]int { return [2]int{questions[question(c)], checks[*c]} }
	for _, r := range v.reals {
		if c := r.check; c != nil && (v.check == nil || slices.Compare(sliceOf(count(c)), sliceOf(count(v.check))) > 0) {
			v.check = c
		}
	}
	if v.check == nil {
		return
	}
	for i := range v.reals {
		switch r := &v.reals[i]; {
		case r.check == nil:
			r.unchecked = true
		case !sameQuestion(r.check, v.check):
			r.unchecked = true
			v.noteChange(r.checkAt, "the check of %s differs from that of the service, which has one: %[1]s is not checked",
				r.place)
		case *r.check != *v.check:
			v.note(r.checkAt, "the check of %s has other times or counts than the service's, which it gets", r.place)
		}
	}
}

func sliceOf(counts [2]int) []int { return counts[:] }

// question is what a check asks and what it wants to hear, however often.
func question(c *sources.HealthCheck) sources.Probe {
	p := c.Probe
	p.Timeout = 0
	return p
}

func sameQuestion(a, b *sources.HealthCheck) bool {
	return a == b || a != nil && b != nil && question(a) == question(b)
}

// place replaces the backend's own address and port in the arguments of its program by words that mean those
// of each backend. A port that changes later, or that a mark leaves open, stays a number. Arguments that have
// the word for the address are those of all backends: a number in them is not the backend's.
func (v *virtual) place(r *real) {
	if r.check == nil || r.check.Probe.Args == "" || strings.Contains(r.check.Probe.Args, endpointAddress) {
		return
	}
	port := r.addr.Port()
	if v.mark != 0 || v.forward.Unchanged() && port != v.addr.Port() {
		port = 0
	}
	args := strings.Split(r.check.Probe.Args, "\x00")
	for i := range args {
		args[i] = placed(args[i], netip.AddrPortFrom(r.addr.Addr(), port))
	}
	own := *r.check
	own.Probe.Args = strings.Join(args, "\x00")
	r.check = &own
}

// Words in the arguments of an exec check that stand for the endpoint's.
const (
	endpointAddress = "$SVCPROXY_ADDRESS"
	endpointPort    = "$SVCPROXY_PORT"
)

// placed returns an argument with the words for an address, wherever it stands alone, and for a port that is
// the argument or follows the address.
func placed(arg string, a netip.AddrPort) string {
	port := strconv.Itoa(int(a.Port()))
	if arg == port && a.Port() != 0 {
		return endpointPort
	}
	address, inside := a.Addr().String(), "0123456789."
	if a.Addr().Is6() {
		inside = "0123456789abcdefABCDEF:"
	}
	var b strings.Builder
	for rest := arg; ; {
		before, after, found := strings.Cut(rest, address)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		alone := (before == "" || !strings.ContainsRune(inside, rune(before[len(before)-1]))) &&
			(after == "" || !strings.ContainsRune(inside, rune(after[0])))
		if !alone {
			b.WriteString(address)
			rest = after
			continue
		}
		b.WriteString(endpointAddress)
		rest = after
		for _, sep := range []string{":", "]:"} {
			if digits, ok := strings.CutPrefix(after, sep+port); ok && a.Port() != 0 &&
				!strings.ContainsAny(digits[:min(1, len(digits))], "0123456789") {
				b.WriteString(sep + endpointPort)
				rest = digits
			}
		}
	}
}
