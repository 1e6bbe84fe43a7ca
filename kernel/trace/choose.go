package trace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// Matches with which rules of nat choose a real server.

// ignored are options that do not change a packet's path here, with their number of values.
// The parameters of a list of clients are among them: it is empty here.
var ignored = map[string]int{
	"recent --seconds": 2, "recent --reap": 1, "recent --name": 2, "recent --mask": 2, "recent --rsource": 1,
}

// chooses reads an option of the modules statistic, recent and bpf. For an option that does
// not matter it returns nil.
func (p *parser) chooses(option string) (match, error) {
	switch p.module + " " + option {
	case "statistic --mode":
		if mode := p.next(); mode != "random" || p.next() != "--probability" {
			return nil, fmt.Errorf("statistic mode %q is not understood", mode)
		}
		return drawn(p.next())
	case "recent --set":
		return func(*tracer, *flight) (bool, string) { return true, "it is remembered" }, nil
	case "recent --rcheck", "recent --update":
		return func(*tracer, *flight) (bool, string) { return false, "its client is new" }, nil
	case "bpf --bytecode":
		return p.sameEnds()
	}
	n := ignored[p.module+" "+option]
	if n == 0 {
		return nil, fmt.Errorf("option %q of match %s is not understood", option, p.module)
	}
	for range n - 1 {
		p.next()
	}
	return nil, nil
}

// drawn holds with a probability.
func drawn(text string) (match, error) {
	chance, err := strconv.ParseFloat(text, 64)
	if err != nil || chance < 0 || chance > 1 {
		return nil, fmt.Errorf("probability %q: want a number from 0 to 1", text)
	}
	return func(t *tracer, _ *flight) (bool, string) {
		if t.draw(chance) {
			return true, "by chance"
		}
		return false, "by chance"
	}, nil
}

// toPort compares the destination's port.
func toPort(proto, text string) (match, error) {
	want, err := kernel.ParseProto(proto)
	number, err2 := strconv.ParseUint(text, 10, 16)
	if err != nil || err2 != nil {
		return nil, fmt.Errorf("%s --dport %q: want a port", proto, text)
	}
	return func(_ *tracer, f *flight) (bool, string) {
		return f.Proto == want && !f.Echo && f.Dst.Port() == uint16(number), fmt.Sprintf("its port is %d", f.Dst.Port())
	}, nil
}

// sameEnds reads the only programs that svcproxy gives to xt_bpf: they accept packets whose
// source and destination are one address.
func (p *parser) sameEnds() (match, error) {
	end := slices.IndexFunc(p.words, func(w string) bool { return strings.HasSuffix(w, `"`) })
	program := ""
	if end >= 0 {
		program = strings.Trim(strings.Join(p.words[:end+1], " "), `"`)
		p.words = p.words[end+1:]
	}
	if program != kernel.SameEnds(p.family) {
		return nil, fmt.Errorf("program %q is not understood", program)
	}
	p.rule.onSource = true
	return func(_ *tracer, f *flight) (bool, string) {
		return f.Src.Addr() == f.Dst.Addr(), fmt.Sprintf("it goes from %s to %s", f.Src.Addr(), f.Dst.Addr())
	}, nil
}
