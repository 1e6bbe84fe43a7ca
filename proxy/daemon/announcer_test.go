package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/announce"
)

// A restart does not raise the number for keepalived at once, because nobody knows yet who is up. While a table may be
// missing it only falls. What a drain wrote is replaced at any time.
func TestNumberForKeepalived(t *testing.T) {
	start := time.Now()
	for _, c := range []struct {
		file  string // content; "" = there is none
		next  int
		hold  bool
		after time.Duration
		keeps bool
	}{
		{"", 0, false, 0, false},
		{"broken", 0, false, 0, false},
		{"-10\n", 0, false, time.Second, true},
		{"-10\n", 0, false, time.Minute, false},
		{"-10\n", 0, true, time.Minute, true},
		{"-10\n", -20, false, time.Second, false},
		{"0\n", -20, true, time.Second, false},
		{"0\n", announce.PriorityWithdrawn, true, time.Second, false},
		{fmt.Sprintln(announce.PriorityWithdrawn), 0, true, time.Second, false},
	} {
		var n number
		file := filepath.Join(t.TempDir(), "announced")
		if c.file != "" {
			if err := os.WriteFile(file, []byte(c.file), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		n.load(file, start.Add(5*time.Second))
		if got := n.keeps(c.next, c.hold, start.Add(c.after)); got != c.keeps {
			t.Errorf("%q, then %d after %s, hold %t: kept %t", c.file, c.next, c.after, c.hold, got)
		}
	}
}
