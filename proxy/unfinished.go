package proxy

import (
	"fmt"
	"time"

	"github.com/svcproxy/svcproxy/proxy/announce"
)

// longestDeparture is how long a VIP that was withdrawn may still be served and count as unfinished.
const longestDeparture = time.Minute

// unfinished lists what the loop goes on with after a sync, by itself and soon. A failed sync is in its error.
func unfinished(r *Report, announced []announce.VIP) (lines []string) {
	if r.Left > 0 {
		lines = append(lines, fmt.Sprintf("%d VIPs are left to the next sync", r.Left))
	}
	for _, c := range r.Plan.Probes {
		lines = append(lines, fmt.Sprintf("other hosts are asked about %s", c))
	}
	for _, v := range announced {
		// It was removed, and its time is not over: then it waits for a source.
		if left := v.Until.Sub(r.Start); left > 0 && left <= longestDeparture {
			lines = append(lines, fmt.Sprintf("%s was withdrawn and is served for %s", v.Addr, left.Round(time.Second)))
		}
	}
	return lines
}
