package statefile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// What failed is written again every 10 s: the newest content of each file, until it succeeds, and that is said.
func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said, wrote []string
		k := Keeper{Said: func(file string, err error) { said = append(said, fmt.Sprint(file, " ", err)) }}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go k.Run(ctx)
		full := errors.New("full")
		disk := full
		write := func(text string) func() error {
			return func() error {
				if disk == nil {
					wrote = append(wrote, text)
				}
				return disk
			}
		}
		if err := k.Do("a", write("a1")); err != full {
			t.Error(err)
		}
		k.Do("a", write("a2"))
		time.Sleep(25 * time.Second)
		disk = nil
		k.Do("b", write("b1"))
		if !slices.Equal(said, []string{"a full", "a full", "a full", "a full"}) || !slices.Equal(wrote, []string{"b1"}) {
			t.Errorf("said %q, wrote %q", said, wrote)
		}
		said = nil
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(said, []string{"a <nil>"}) || !slices.Equal(wrote, []string{"b1", "a2"}) {
			t.Errorf("said %q, wrote %q", said, wrote)
		}
		var none *Keeper
		if err := none.Do("a", func() error { return full }); err != full {
			t.Error(err)
		}
	})
}
