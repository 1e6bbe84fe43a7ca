package iptables

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
)

// Edits make the wanted rules, in their order, as iptables carries them out.
func TestEdits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf("-d 10.0.0.%d/32 -j ACCEPT", rapid.IntRange(1, 40).Draw(t, "rule"))
		}), 1, 20, rapid.ID)
		was, want := rules.Draw(t, "was"), rules.Draw(t, "want")
		slices.Sort(was)
		if rapid.IntRange(0, 4).Draw(t, "in order") > 0 {
			slices.Sort(want)
		}
		lines := edits("C", strings.Join(was, "\n"), strings.Join(want, "\n"))
		if lines == nil {
			return
		}
		if got := edited(t, was, lines); !slices.Equal(got, want) {
			t.Fatalf("%q\nmade %q\nof %q, want %q", lines, got, was, want)
		}
	})
}

// edited carries lines out on the rules of a chain C.
func edited(t *rapid.T, rules, lines []string) []string {
	for _, line := range lines {
		verb, rest, _ := strings.Cut(line, " C ")
		number, rule, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(number)
		switch {
		case verb == "-A":
			rules = append(slices.Clone(rules), rest)
		case err != nil || n < 1 || n > len(rules)+1 || verb == "-D" && n > len(rules):
			t.Fatalf("%q with %d rules", line, len(rules))
		case verb == "-D":
			rules = slices.Delete(slices.Clone(rules), n-1, n)
		default:
			rules = slices.Insert(slices.Clone(rules), n-1, rule)
		}
	}
	return rules
}

// A long chain is edited where rules come and go, and written as a whole if another program changed it.
func TestKernelEdits(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		defer func(was int) { leastEdited = was }(leastEdited)
		leastEdited = 3
		write := func(_ string, numbers ...int) {
			t.Helper()
			var rules []string
			for _, n := range numbers {
				rules = append(rules, fmt.Sprintf("-d 10.0.0.%d/32 -j RETURN", n))
			}
			c := kernel.Chain{Family: kernel.IPv4, Table: "nat", Name: "KUBE-SERVICES", Rules: strings.Join(rules, "\n")}
			b.written(t, kernel.State{Chains: []kernel.Chain{c}})
		}
		write("first", 1, 3, 5, 7, 9)
		write("in between, in front and behind", 0, 1, 2, 3, 5, 6, 7, 9, 10)
		write("some go", 1, 2, 5, 6, 10, 11)
		write("in another order", 11, 10, 6, 5, 2, 1)
		write("most go", 6)
		write("many", 6, 7, 8, 9)
		have := b.read(t)
		b.restore(t, "iptables", "*nat\n-D KUBE-SERVICES 1\nCOMMIT\n") // and the reading is old
		less := have[0]
		less.Rules = strings.Join(strings.Split(have[0].Rules, "\n")[:3], "\n")
		if errs := b.Apply(t.Context(), []kernel.Op{{Verb: kernel.Change, Object: less, Was: have[0]}}); errs[0] != nil {
			t.Fatal(errs)
		}
		if now := b.read(t); len(now) != 1 || now[0] != less {
			t.Errorf("%v, want %v", now, less)
		}
	})
}
