package explain

import (
	"fmt"
	"strings"

	"github.com/svcproxy/svcproxy/proxy/screen"
)

// String is the answer for people: the sentence, the packet, a line for each step, and the sentence
// again, since the first line of a long answer leaves the screen. A step with ! keeps packets from
// being served.
func (a Answer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", screen.Clean(a.Sentence), a.Packet)
	for _, s := range a.Steps {
		mark := " "
		if s.Wrong {
			mark = "!"
		}
		fmt.Fprintf(&b, "%s %-8s  %s\n", mark, s.Stage, screen.Clean(s.Text))
	}
	b.WriteString(screen.Clean(a.Sentence) + "\n")
	return b.String()
}
