package modetest

import (
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
)

// Traced returns a section of packets with the verdicts for a state: one
// "PACKET: VERDICT" per line. Empty lines and comments (#) are kept.
func Traced(s kernel.State, n kernel.Node, section string) (string, error) {
	var b strings.Builder
	for line := range strings.Lines(section) {
		line = strings.TrimSuffix(line, "\n")
		if line != "" && line[0] != '#' {
			text, _, _ := strings.Cut(line+" ", ": ")
			p, err := packet.ParsePacket(text)
			if err != nil {
				return "", err
			}
			v, err := packet.Trace(s, n, p)
			if err != nil {
				return "", err
			}
			line = text + ": " + v.String()
		}
		b.WriteString(line + "\n")
	}
	return b.String(), nil
}
