package statefile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What failed is written again every 10 s: the newest content of each file, until it succeeds, and that is said.
func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("full")
		var mu sync.Mutex // a file is written again in a goroutine of its own
		var said, wrote []string
		disk := full
		k := Keeper{Said: func(file string, err error) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, fmt.Sprint(file, " ", err))
		}}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go k.Run(ctx)
		write := func(text string) func() error {
			return func() error {
				mu.Lock()
				defer mu.Unlock()
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
		mu.Lock()
		disk = nil
		mu.Unlock()
		k.Do("b", write("b1"))
		mu.Lock()
		if !slices.Equal(said, []string{"a full", "a full", "a full", "a full"}) || !slices.Equal(wrote, []string{"b1"}) {
			t.Errorf("said %q, wrote %q", said, wrote)
		}
		said = nil
		mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(said, []string{"a <nil>"}) || !slices.Equal(wrote, []string{"b1", "a2"}) {
			t.Errorf("said %q, wrote %q", said, wrote)
		}
		var none *Keeper
		if err := none.Do("a", func() error { return full }); err != full {
			t.Error(err)
		}
	})
}
