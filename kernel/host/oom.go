package host

import (
	"fmt"
	"os"
	"strconv"
)

// SetOOMScoreAdj sets how soon the kernel kills this process when memory is short: -1000
// never, 1000 first. Without CAP_SYS_RESOURCE it cannot be lower than at the start of
// the process.
func SetOOMScoreAdj(score int) error {
	const file = "/proc/self/oom_score_adj"
	if err := os.WriteFile(file, []byte(strconv.Itoa(score)), 0o644); err != nil {
		return fmt.Errorf("setting oomScoreAdj to %d: %w", score, err)
	}
	return nil
}
