package packet

import (
	"fmt"
	"strconv"

	"github.com/svcproxy/svcproxy/kernel"
)

// Matches with which our rules of nat choose a real server. In rules of other programs nobody knows how they turn
// out.

// ignored are options that do not change a packet's path here, with the number of their values.
// The parameters of a list of clients are among them: it is empty here.
var ignored = map[string]int{
	"recent --seconds": 1, "recent --reap": 0, "recent --name": 1, "recent --mask": 1, "recent --rsource": 0,
	"recent --rdest": 0, "recent --hitcount": 1, "recent --rttl": 0,
}

// chooses reads an option of the modules statistic, recent and bpf.
func (p *parser) chooses(option string) (cond, error) {
	switch p.module + " " + option {
	case "statistic --mode":
		if mode := p.next(); mode != "random" || p.next() != "--probability" {
			return cond{}, fmt.Errorf("statistic mode %q is not understood", mode)
		}
		return drawn(p.next())
	case "recent --set":
		return ofOurs(func(*View) bool { return true }, "it is remembered"), nil
	case "recent --rcheck", "recent --update":
		return ofOurs(func(*View) bool { return false }, "its client is new"), nil
	case "bpf --bytecode":
		return p.sameEnds()
	}
	n, ok := ignored[p.module+" "+option]
	if !ok {
		return cond{}, fmt.Errorf("option %q of match %s is not understood", option, p.module)
	}
	for range n {
		p.next()
	}
	return cond{}, nil
}

// ofOurs is a condition that only rules of ours tell.
func ofOurs(holds func(*View) bool, why string) cond {
	return cond{needs: history, holds: func(v *View) Answer { return yes(holds(v)) },
		why: func(*View) string { return why }}
}

// drawn holds with a probability.
func drawn(text string) (cond, error) {
	chance, err := strconv.ParseFloat(text, 64)
	if err != nil || chance < 0 || chance > 1 {
		return cond{}, fmt.Errorf("probability %q: want a number from 0 to 1", text)
	}
	return ofOurs(func(v *View) bool { return v.draw(chance) }, "by chance"), nil
}

// sameEnds reads the only programs that svcproxy gives to xt_bpf: they accept packets whose
// source and destination are one address.
func (p *parser) sameEnds() (cond, error) {
	program := p.next()
	family := kernel.IPv4
	if program == kernel.SameEnds(kernel.IPv6) {
		family = kernel.IPv6
	} else if program != kernel.SameEnds(kernel.IPv4) {
		return cond{}, fmt.Errorf("program %q is not understood", program)
	}
	p.rule.onSource = true
	return cond{needs: Source | Destination, holds: func(v *View) Answer {
		return yes(v.family() == family && v.Src.Addr() == v.Dst.Addr())
	}, why: func(v *View) string {
		return fmt.Sprintf("it goes from %s to %s", v.Src.Addr(), v.Dst.Addr())
	}}, nil
}
