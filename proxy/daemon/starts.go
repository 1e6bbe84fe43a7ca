package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/config"
)

const (
	// startsFile has the starts that did not last, in the runtime directory, which systemd keeps over restarts and a
	// reboot empties.
	startsFile = "starts.json"
	maxStarts  = 4 << 10 // bytes
)

// readStarts reads the starts that did not last. A file that cannot be read counts as none.
func readStarts(runtimeDir string) (s announce.Starts) {
	data, err := statefile.Read(filepath.Join(runtimeDir, startsFile), maxStarts)
	if err != nil || json.Unmarshal(data, &s) != nil {
		return announce.Starts{}
	}
	return s
}

// begin records that svcproxy starts. If it crashed again and again, it withdraws what is announced, before
// anything that may crash again.
func (d *daemon) begin(c config.Config) announce.Starts {
	if c.Announce.Mode == announce.Off {
		return announce.Starts{}
	}
	s := readStarts(c.RuntimeDir).Next(time.Now().UTC())
	data, err := json.Marshal(s)
	if err == nil {
		err = statefile.Write(filepath.Join(c.RuntimeDir, startsFile), append(data, '\n'), 0o644)
	}
	if err != nil {
		d.log.Warn("cannot count this start: VIPs stay announced if svcproxy crashes again and again", "err", err)
	}
	if !s.Crashing() {
		return s
	}
	gone, err := host.Withdraw()
	err = errors.Join(err, WithdrawFile(c.Announce))
	d.log.Warn("svcproxy crashed again and again: VIPs are announced when it has run for a minute", "starts", s.Count,
		"since", s.Since, "withdrawn", len(gone), "err", err)
	return s
}

// lasted forgets the starts: this one was good.
func lasted(runtimeDir string) error {
	err := statefile.Remove(filepath.Join(runtimeDir, startsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// stopped forgets the starts if svcproxy was stopped, which is no crash.
func (d *daemon) stopped(ctx context.Context, c config.Config) {
	if ctx.Err() == nil {
		return
	}
	if err := lasted(c.RuntimeDir); err != nil {
		d.log.Warn("cannot reset the count of crashes", "err", err)
	}
}

// WithdrawFile writes announce.file as on a drained node.
func WithdrawFile(a config.Announce) error {
	if a.Mode == announce.Off || a.File == "" {
		return nil
	}
	w := announce.Decision{Priority: announce.PriorityWithdrawn}
	if err := statefile.Publish(a.File, []byte(w.File(a.Mode))); err != nil {
		return fmt.Errorf("writing announce.file: %w", err)
	}
	return nil
}
