package lab

import (
	"fmt"
	"slices"
	"strings"
)

// Local lists what makes a node take or answer for addresses: the local routes
// of both families, and the IPv6 proxy neighbours, sorted. It leaves out what the
// kernel makes for each link by itself.
func (h *Host) Local() ([]string, error) {
	var lines []string
	for _, args := range [][]string{
		{"-4", "route", "show", "table", "local", "type", "local"},
		{"-6", "route", "show", "table", "local", "type", "local"},
		{"-6", "neigh", "show", "proxy"},
	} {
		out, err := h.Run("ip", args...)
		if err != nil {
			return nil, fmt.Errorf("listing what is local: %w", err)
		}
		for line := range strings.Lines(out) {
			if line = strings.TrimSpace(line); !strings.Contains(line, "local fe80:") {
				lines = append(lines, line)
			}
		}
	}
	slices.Sort(lines)
	return lines, nil
}
