package daemon

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A refusal is tried again after a minute. An acceptance is not.
func TestPortalsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		p := &portals{try: func() error {
			if tries++; tries < 3 {
				return syscall.EAGAIN
			}
			return nil
		}}
		for _, c := range []struct {
			after time.Duration
			tries int
			err   error
		}{
			{0, 1, syscall.EAGAIN},
			{59 * time.Second, 1, syscall.EAGAIN},
			{time.Second, 2, syscall.EAGAIN},
			{time.Minute, 3, nil},
			{time.Hour, 3, nil},
		} {
			time.Sleep(c.after)
			if err := p.usable(); err != c.err || tries != c.tries {
				t.Errorf("after %v more: %v, %d tries; want %v, %d", c.after, err, tries, c.err, c.tries)
			}
		}
	})
}
