package explain

import (
	"fmt"
	"strings"

	"github.com/svcproxy/svcproxy/proxy/screen"
)

// String is the answer for people: the packet, a line for each step, and the sentence. A
// step with ! keeps packets from being served.
func (a Answer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", a.Packet)
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
