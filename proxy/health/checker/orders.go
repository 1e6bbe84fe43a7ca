package checker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/proxy/health"
)

const (
	// ordersFile has the orders, in stateDir.
	ordersFile = "overrides.json"
	// maxOrdersFile bounds it, in bytes. 10,000 orders with the longest texts have less.
	maxOrdersFile = 32 << 20
	// prunePeriod is the time between two looks at which orders have an endpoint: it walks the table.
	prunePeriod = time.Minute
	// stuckPeriod is the same after a failure to write. The Keeper comes every 10 s.
	stuckPeriod = 5 * time.Second
)

// orders are the operator's orders with their file.
type orders struct {
	health.Overrides
	changed time.Time // when they did last, in this run
	unread  error     // why the file, or a part of it, could not be read; nil if it could, or since the next order
	aside   bool      // that file was set aside
	pruned  time.Time // when it was last looked for orders that are over
	stuck   error     // why what is over could not be written then
}

// ReadOrders returns the orders in stateDir. What is not well formed is left out, with an error.
func ReadOrders(stateDir string) (health.Overrides, error) {
	data, err := statefile.Read(filepath.Join(stateDir, ordersFile), maxOrdersFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list health.Overrides
	if err == nil {
		list, err = health.ParseOverrides(data)
	}
	if err != nil {
		err = fmt.Errorf("orders of the operator do not count: %s: %w", filepath.Join(stateDir, ordersFile), err)
	}
	return list, err
}

// write replaces the file. A file that could not be read is kept under another name.
func (o *orders) write(stateDir string, next health.Overrides) error {
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	path := filepath.Join(stateDir, ordersFile)
	if o.unread != nil && !o.aside {
		if err := statefile.SetAside(path); err != nil {
			return fmt.Errorf("setting %s aside, which cannot be read: %w", path, err)
		}
		o.aside = true
	}
	if err := statefile.Write(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("keeping the orders: %w", err)
	}
	return nil
}

// Overrides returns the operator's orders that stand.
func (c *Checker) Overrides() health.Overrides {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.orders.Overrides)
}

// Ordered returns when the orders changed last in this run: a sync that began later has them.
func (c *Checker) Ordered() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.orders.changed
}

// Unread says why orders of an earlier run do not count; nil if all do.
func (c *Checker) Unread() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.orders.unread
}

// Order adds an order of the operator and keeps it. Without force it is health.ErrLast if it would take out the last
// usable endpoint of a service, and health.ErrNone if it is for no endpoint, as with a typing error.
func (c *Checker) Order(o health.Override, force bool) error {
	c.ordering.Lock()
	defer c.ordering.Unlock()
	v := c.View()
	if !force {
		if len(o.Selector.Places(v.Table)) == 0 {
			return fmt.Errorf("%s %s: %w now", o.Verb, o.Selector, health.ErrNone)
		}
		if err := health.CheckLast(v.Table, v.Known, o, v.Now); err != nil {
			return err
		}
	}
	next, err := v.Known.Overrides.Add(o)
	if err != nil {
		return err
	}
	return c.ordered(next, health.Event{Kind: health.Ordered, At: v.Now, Order: o})
}

// TakeBack removes an order: with outs one that takes endpoints out, else a weight.
func (c *Checker) TakeBack(s health.Selector, outs bool, by health.Author) error {
	c.ordering.Lock()
	defer c.ordering.Unlock()
	before := c.Overrides()
	next, err := before.Undo(s, outs)
	if err != nil {
		return err
	}
	taken := health.Event{Kind: health.TakenBack, At: time.Now(), Author: by}
	for _, o := range before {
		if o.Selector == s && outs == (o.Verb != health.Reweigh) {
			taken.Order = o
		}
	}
	return c.ordered(next, taken)
}

// ordered keeps what the operator just ordered, and clears what Unread says.
func (c *Checker) ordered(next health.Overrides, e health.Event) error {
	if err := c.keep(next, []health.Event{e}); err != nil {
		return err
	}
	c.mu.Lock()
	c.orders.unread = nil
	c.mu.Unlock()
	return nil
}

// keep writes orders, has the next Overlay apply them, and notes what happened. The lock ordering is held; mu is not,
// because the loop must not wait for a disk.
func (c *Checker) keep(next health.Overrides, events []health.Event) error {
	if err := c.orders.write(c.StateDir, next); err != nil {
		return err
	}
	c.mu.Lock()
	c.orders.Overrides, c.orders.changed = next, time.Now()
	c.told = append(c.told, events...)
	c.mu.Unlock()
	signal(c.news)
	c.Wake()
	return nil
}

// prune calls pruneOrders when a tick asks for it. It has a goroutine of its own, because it may wait for a disk.
func (c *Checker) prune(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.prunes:
			_ = c.Keeper.Do(ordersFile, func() error { return c.pruneOrders(time.Now()) }) // the Keeper says the error
		}
	}
}

// pruneOrders ends orders whose time is over, and those that have had no endpoint for 24 hours. An order that
// is over counts no more, even before this. While a source has not delivered, an order without an endpoint
// stays: its endpoint comes back with its table, and may be under repair. Nothing ends before the first
// table, because package health asks the orders of the last run, ended or not, why an endpoint has weight 0.
func (c *Checker) pruneOrders(now time.Time) error {
	c.ordering.Lock()
	defer c.ordering.Unlock()
	c.mu.Lock()
	list, served := c.orders.Overrides, c.served
	c.mu.Unlock()
	over := c.orders.stuck == nil && slices.ContainsFunc(list, func(o health.Override) bool { return o.Expired(now) })
	if len(list) == 0 || served.table.Services.Len() == 0 || !over && now.Sub(c.orders.pruned) < c.orders.pause() {
		return c.orders.stuck
	}
	c.orders.pruned, c.orders.stuck = now, nil
	kept, dropped := list.Expire(now)
	if !served.missing {
		kept, dropped = list.Prune(served.table, now)
	}
	if slices.Equal(kept, list) {
		return nil
	}
	var events []health.Event
	for _, d := range dropped {
		events = append(events, health.Event{Kind: health.OrderOver, At: now, Order: d.Override, Reason: d.Because})
	}
	if err := c.keep(kept, events); err != nil {
		c.orders.stuck = fmt.Errorf("orders that are over cannot be removed; they do not count: %w", err)
	}
	return c.orders.stuck
}

// pause is the time between two looks at which orders are over.
func (o *orders) pause() time.Duration {
	if o.stuck != nil {
		return stuckPeriod
	}
	return prunePeriod
}
