package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
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
	cancel      context.CancelFunc
	clients     sync.WaitGroup
	connections atomic.Int64
	answered    atomic.Int64
	mu          sync.Mutex
	failures    []error
}

// browse starts a client for each VIP. With keepAlive each holds on to its
// connection.
func (d *demo) browse(keepAlive bool, vips ...netip.AddrPort) *browsing {
	ctx, cancel := context.WithCancel(context.Background())
	b := &browsing{cancel: cancel}
	for _, vip := range vips {
		client := d.Client.HTTP(keepAlive, lab.AskLimit)
		transport := client.Transport.(*http.Transport)
		dial := transport.DialContext
		transport.DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
			b.connections.Add(1)
			return dial(ctx, network, to)
		}
		b.clients.Go(func() {
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				b.count(lab.Get(client, vip))
				time.Sleep(pause)
			}
		})
	}
	return b
}

func (b *browsing) count(_ lab.Answer, err error) {
	if err == nil {
		b.answered.Add(1)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = append(b.failures, err)
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
