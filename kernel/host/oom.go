package host

import (
	"fmt"
	"os"
	"strconv"
)

// SetOOMScoreAdj says how soon the kernel ends this process when memory is
// short: -1000 is never, 1000 is first. Without CAP_SYS_RESOURCE it cannot be
// lower than what the process was started with.
func SetOOMScoreAdj(score int) error {
	const file = "/proc/self/oom_score_adj"
	if err := os.WriteFile(file, []byte(strconv.Itoa(score)), 0o644); err != nil {
		return fmt.Errorf("setting oomScoreAdj to %d: %w", score, err)
	}
	return nil
}
