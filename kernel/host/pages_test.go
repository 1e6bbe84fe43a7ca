package host

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestSmallPages(t *testing.T) {
	SmallPages()
	if disabled, err := unix.PrctlRetInt(unix.PR_GET_THP_DISABLE, 0, 0, 0, 0); err != nil || disabled != 1 {
		t.Errorf("huge pages are not off: %d, %v", disabled, err)
	}
}
