package proxy

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/svcproxy/svcproxy/sources"
)

// A complaintLog says what is wrong with what is to be served, each thing once
// for as long as it holds, and when nothing is any more.
type complaintLog struct {
	log  *slog.Logger
	what string // what became of each: "refused"; "" logs the line itself
	said map[string]bool
}

// know takes what another has logged.
func (c *complaintLog) know(lines []string) {
	c.said = make(map[string]bool, len(lines))
	for _, line := range lines {
		c.said[line] = true
	}
}

// hear takes everything that is wrong now.
func (c *complaintLog) hear(lines []string) {
	now := make(map[string]bool, len(lines))
	for _, line := range lines {
		if !now[line] && !c.said[line] {
			if c.what == "" {
				c.log.Warn(line)
			} else {
				c.log.Warn(c.what, "err", line)
			}
		}
		now[line] = true
	}
	if len(now) == 0 && len(c.said) > 0 && c.what != "" {
		c.log.Info("nothing is " + c.what + " any more")
	}
	c.said = now
}

// complaints are the lines of a source's error, one for each problem.
func complaints(err error) []string {
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
