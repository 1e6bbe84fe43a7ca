package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// pause between two requests of a client: an emulated processor has other work.
const pause = 10 * time.Millisecond

// A browsing is clients that send one request after the other until told to stop.
type browsing struct {
	cancel   context.CancelFunc
	clients  sync.WaitGroup
	answered atomic.Int64
	mu       sync.Mutex
	failures []error
}

// browse starts a client for each VIP, with a connection for each request.
func (d *demo) browse(vips ...netip.AddrPort) *browsing {
	b, ctx := newBrowsing()
	for _, vip := range vips {
		client := d.Client.HTTP(lab.AskLimit)
		b.clients.Go(func() { b.keep(ctx, func() (lab.Answer, error) { return lab.Get(client, vip) }) })
	}
	return b
}

// browseOn starts a client for each VIP, with one connection for all its requests.
func (d *demo) browseOn(vips ...netip.AddrPort) (*browsing, error) {
	b, ctx := newBrowsing()
	for _, vip := range vips {
		c, err := d.Client.Dial("tcp", vip)
		if err != nil {
			b.stop()
			return nil, err
		}
		b.clients.Go(func() {
			defer c.Close()
			b.keep(ctx, c.Get)
		})
	}
	return b, nil
}

func newBrowsing() (*browsing, context.Context) {
	ctx, cancel := context.WithCancel(context.Background())
	return &browsing{cancel: cancel}, ctx
}

// keep sends requests and counts what becomes of them.
func (b *browsing) keep(ctx context.Context, request func() (lab.Answer, error)) {
	for ctx.Err() == nil {
		if _, err := request(); err != nil {
			b.mu.Lock()
			b.failures = append(b.failures, err)
			b.mu.Unlock()
		} else {
			b.answered.Add(1)
		}
		time.Sleep(pause)
	}
}

// more waits for n more answers.
func (b *browsing) more(n int64) error {
	want := b.answered.Load() + n
	return lab.Eventually(patience, func() error {
		if have := b.answered.Load(); have < want {
			return fmt.Errorf("%d more requests were to be answered, %d are missing", n, want-have)
		}
		return nil
	})
}

// stop ends the clients and returns how many requests were answered, and what
// failed.
func (b *browsing) stop() (int64, error) {
	b.cancel()
	b.clients.Wait()
	if len(b.failures) > 0 {
		return b.answered.Load(), fmt.Errorf("%d requests failed, the first: %w", len(b.failures), b.failures[0])
	}
	return b.answered.Load(), nil
}
