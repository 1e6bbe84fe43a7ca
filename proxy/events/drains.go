package events

import (
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
)

// drainsBegun lists the real servers that drain now and did not before. Both lists
// are sorted by real server, as Diff makes them.
func drainsBegun(before, now []kernel.Drain) []kernel.RealKey {
	var begun []kernel.RealKey
	for _, d := range now {
		if !drains(before, d.Real) {
			begun = append(begun, d.Real)
		}
	}
	return begun
}

// drainsEnded lists the real servers that ops remove at the end of their drain.
func drainsEnded(before []kernel.Drain, ops []kernel.Op) []kernel.RealKey {
	var ended []kernel.RealKey
	for _, o := range ops {
		if proxy.EndsDrain(o) {
			ended = append(ended, o.Object.(kernel.Real).Key)
		} else if endsRuleDrain(before, o) {
			ended = append(ended, o.Object.(kernel.Flow).Key)
		}
	}
	return ended
}

// endsRuleDrain reports whether an op removes the tracked connections of a real server that drained before. That is the
// end of a drain if rules balance.
func endsRuleDrain(before []kernel.Drain, o kernel.Op) bool {
	f, ok := o.Object.(kernel.Flow)
	return ok && f.Key.Virtual.Proto == kernel.TCP && drains(before, f.Key)
}

func drains(all []kernel.Drain, k kernel.RealKey) bool {
	_, found := slices.BinarySearchFunc(all, k, func(d kernel.Drain, k kernel.RealKey) int { return d.Real.Compare(k) })
	return found
}

// realTexts names real servers: "10.2.0.1:8080 of 10.96.0.1:80/tcp; ...".
func realTexts(reals []kernel.RealKey) string {
	return joined(reals, func(k kernel.RealKey) string {
		return fmt.Sprintf("%s of %s/%s", k.Addr, k.Virtual.AddrPort(), k.Virtual.Proto)
	})
}

// maxNamed is how many objects one line names.
const maxNamed = 5

// joined names the first maxNamed of a list and counts the others.
func joined[T any](list []T, text func(T) string) string {
	var parts []string
	for i, v := range list {
		if i == maxNamed {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		parts = append(parts, text(v))
	}
	return strings.Join(parts, "; ")
}
