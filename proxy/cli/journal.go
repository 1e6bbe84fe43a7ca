package cli

import (
	"io"
	"os"
	"strconv"
	"syscall"
)

// Priorities of syslog, which a service puts in front of each line that it writes to the journal: sd-daemon(3).
const (
	PriorityError   = "<3>"
	PriorityWarning = "<4>"
	PriorityInfo    = "<6>"
	PriorityDebug   = "<7>"
)

// Journal reports whether a file leads to systemd's journal, by JOURNAL_STREAM: systemd.exec(5). A file that was
// redirected since does not.
func Journal(w io.Writer) bool {
	f, ok := w.(*os.File)
	stream := os.Getenv("JOURNAL_STREAM")
	if !ok || stream == "" {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && stream == strconv.FormatUint(uint64(st.Dev), 10)+":"+strconv.FormatUint(st.Ino, 10)
}
