package host

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The test binary has more than 10 MB. Its pages leave the process, and it goes on running.
func TestDropProgram(t *testing.T) {
	if !fixed() {
		t.Skip("built with cgo: this program's read-only pages may have been changed by the loader")
	}
	had := residentFile(t)
	if err := DropProgram(); err != nil {
		t.Fatal(err)
	}
	has := residentFile(t)
	t.Logf("%d kB of files were resident, %d kB are", had, has)
	if had > 1000 && has >= had { // some file systems have no pages that count as a file's
		t.Errorf("%d kB of files were resident, %d kB are", had, has)
	}
}

// residentFile is the process's resident memory that belongs to files, in kB.
func residentFile(t *testing.T) (kB int) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(status), "\nRssFile:")
	if !ok {
		t.Skip("this kernel does not report RssFile")
	}
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		t.Fatal(err)
	}
	return kB
}
