package appliance

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// crowd is the clients of a service. Some hold a connection and send many
// requests on it; one opens a new connection for every request.
type crowd struct {
	stop  chan struct{}
	going sync.WaitGroup

	mu     sync.Mutex
	asked  int
	opened int
	lost   []error
}

const (
	holders = 4
	pause   = 200 * time.Millisecond // between two questions of one client
)

func gather(client *lab.Host, to netip.AddrPort) (*crowd, error) {
	c := &crowd{stop: make(chan struct{})}
	for range holders {
		conn, err := client.Dial("tcp", to)
		if err != nil {
			close(c.stop)
			return nil, err
		}
		c.going.Go(func() {
			defer conn.Close()
			c.repeat(func() error {
				_, err := conn.Ask()
				return err
			}, &c.asked)
		})
	}
	c.going.Go(func() {
		c.repeat(func() error {
			_, err := client.Ask("tcp", to)
			return err
		}, &c.opened)
	})
	return c, nil
}

// repeat does f until the end, or until it fails.
func (c *crowd) repeat(f func() error, count *int) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
		err := f()
		c.mu.Lock()
		*count++
		if err != nil {
			c.lost = append(c.lost, fmt.Errorf("%s: %w", time.Now().Format(time.TimeOnly), err))
		}
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// end sends everybody home and says what there was, or what was lost.
func (c *crowd) end() (string, error) {
	close(c.stop)
	c.going.Wait()
	if len(c.lost) > 0 {
		return "", fmt.Errorf("lost %d of %d clients: %w", len(c.lost), holders+1, errors.Join(c.lost...))
	}
	if c.asked < holders || c.opened == 0 {
		return "", errors.New("nobody asked anything")
	}
	return fmt.Sprintf("%d questions on %d held connections, %d new connections, none lost", c.asked, holders, c.opened), nil
}
