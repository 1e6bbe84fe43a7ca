package proxy

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/svcproxy/svcproxy/sources"
)

// problemLog logs problems of one kind. It logs each once for as long as it lasts, and
// once when none is left.
type problemLog struct {
	log     *slog.Logger
	message string // of each line: "refused"; "" if the problem itself is the message
	current map[string]bool
}

// logged takes problems that are in the log already.
func (l *problemLog) logged(problems []string) {
	l.current = make(map[string]bool, len(problems))
	for _, text := range problems {
		l.current[text] = true
	}
}

// report takes all problems that exist now.
func (l *problemLog) report(problems []string) {
	now := make(map[string]bool, len(problems))
	for _, text := range problems {
		switch {
		case now[text] || l.current[text]:
		case l.message == "":
			l.log.Warn(text)
		default:
			l.log.Warn(l.message, "err", text)
		}
		now[text] = true
	}
	if len(now) == 0 && len(l.current) > 0 && l.message != "" {
		l.log.Info("nothing is " + l.message + " any more")
	}
	l.current = now
}

// logs are the problem logs of the loop's goroutine.
type logs struct {
	withheld  problemLog // services, or parts of them, that are left out
	doubts    problemLog // services that are probably not as they were meant
	conflicts problemLog // virtual servers and VIPs of other programs and hosts
	firewall  problemLog // other programs' rules that keep clients away
	small     problemLog // kernel parameters that are too small and not ours to change
	unprobed  problemLog // why other hosts could not be asked about VIPs
	failures  failureLog
}

func newLogs(log *slog.Logger) logs {
	return logs{
		withheld:  problemLog{log: log, message: "left out"},
		doubts:    problemLog{log: log},
		conflicts: problemLog{log: log, message: "not taken over"},
		firewall:  problemLog{log: log, message: "in the way"},
		small:     problemLog{log: log, message: "too small"},
		unprobed:  problemLog{log: log, message: "not probed"},
		failures:  failureLog{log: log},
	}
}

// problemsOf returns the lines of a source's error, one for each problem.
func problemsOf(err error) []string {
	var rejected *sources.RejectedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &rejected) && len(rejected.Problems) > 0:
		return lines(rejected.Problems)
	}
	return []string{err.Error()}
}

func lines(problems []sources.Problem) []string {
	list := make([]string, len(problems))
	for i, p := range problems {
		list[i] = p.Error()
	}
	return list
}

func texts[T fmt.Stringer](s []T) []string {
	list := make([]string, len(s))
	for i, v := range s {
		list[i] = v.String()
	}
	return list
}
