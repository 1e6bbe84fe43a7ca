package daemon

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// reboot is what to do about a kernel without its modules: nothing else helps.
const reboot = "reboot"

// reasonOf says what a mode lacks, and what brings it. unbooted is the release of the running kernel if its modules are
// gone, as an upgrade leaves it; else "".
func reasonOf(missing []*kernel.MissingError, unbooted string) (reason, hint string) {
	var reasons, hints []string
	for _, m := range missing {
		if !slices.Contains(reasons, m.What) {
			reasons = append(reasons, m.What)
		}
		if m.Hint != "" && !slices.Contains(hints, m.Hint) {
			hints = append(hints, m.Hint)
		}
	}
	reason, hint = strings.Join(reasons, "; "), strings.Join(hints, "; ")
	if unbooted != "" {
		return fmt.Sprintf("%s: kernel %s runs, and an upgrade removed its modules", reason, unbooted), reboot
	}
	return reason, hint
}

// logMode logs the mode, and why it is not one that is preferred. The words are kube-proxy's: people search for them.
func logMode(log *slog.Logger, used string, all []status.Fallback) {
	for i, f := range all {
		next := used
		if i+1 < len(all) {
			next = all[i+1].Mode
		}
		text := fmt.Sprintf("Can't use %s proxier, trying %s proxier", f.Mode, next)
		if next == mode.Userspace {
			text = fmt.Sprintf("Can't use %s proxy, using %s proxier", f.Mode, next)
		}
		log.Warn(text, "reason", f.Reason, "hint", f.Hint)
	}
	log.Info(fmt.Sprintf("Using %s Proxier.", used))
}

// SteppedDown says that Open could not use the preferred mode; "" if it could.
func (s Setup) SteppedDown() string {
	d := status.Daemon{Mode: s.Mode(), Fallbacks: s.Fallbacks}
	return d.SteppedDown()
}

// modeReason says why a mode is in use; "" if the configuration names it.
func (s Setup) modeReason() string {
	switch {
	case s.Config.Strict(), s.Config.Mode != "" && len(s.Fallbacks) == 0:
		return ""
	case len(s.Fallbacks) == 0:
		return "this kernel's best mode"
	}
	text := make([]string, len(s.Fallbacks))
	for i, f := range s.Fallbacks {
		text[i] = fmt.Sprintf("%s cannot be used: %s", f.Mode, f.Reason)
	}
	return strings.Join(text, "; ")
}
