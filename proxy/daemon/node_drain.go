package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/status"
)

const (
	// nodeDrainFile has the node's drain, in stateDir. Without a drain there is none.
	nodeDrainFile    = "node-drain.json"
	nodeDrainVersion = 1
	maxNodeDrain     = 4 << 10 // bytes
)

// nodeDrain is the operator's order that sends load balancers in front of this node away. Services go on. Its methods
// may be called from any goroutine.
type nodeDrain struct {
	path string

	setting sync.Mutex        // of Set, while it writes the file
	mu      sync.Mutex        // of what follows; the loop takes it, which must not wait for a disk
	now     *status.NodeDrain // nil = not drained; its value never changes
	unread  error             // why the file could not be read
}

// nodeDrainJSON is the content of the file.
type nodeDrainJSON struct {
	Version int `json:"version"`
	status.NodeDrain
}

// openNodeDrain reads the file. If it cannot be read, the node is not drained and Unread says so.
func openNodeDrain(stateDir string) *nodeDrain {
	n := &nodeDrain{path: filepath.Join(stateDir, nodeDrainFile)}
	var file nodeDrainJSON
	data, err := statefile.Read(n.path, maxNodeDrain)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return n
	case err == nil:
		err = json.Unmarshal(data, &file)
	}
	if err == nil && file.Version != nodeDrainVersion {
		err = fmt.Errorf("unknown schema version %d, want %d", file.Version, nodeDrainVersion)
	}
	if err == nil {
		err = health.Author{By: file.By, Why: file.Why}.Check()
	}
	if err != nil {
		n.unread = fmt.Errorf("the node is not drained, because %s cannot be read: %w", n.path, err)
		return n
	}
	n.now = &file.NodeDrain
	return n
}

// State returns the drain; nil if there is none.
func (n *nodeDrain) State() *status.NodeDrain {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

// Unread says why a drain of an earlier run does not count; nil if it does, or there was none.
func (n *nodeDrain) Unread() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unread
}

// Set drains the node, or ends its drain. A file that could not be read is kept under another name. Of a
// drained node it changes who asked and why, not the time since when: VIPs that were withdrawn must not come
// back.
func (n *nodeDrain) Set(drain bool, by health.Author) error {
	n.setting.Lock()
	defer n.setting.Unlock()
	now, unread := n.State(), n.Unread()
	if !drain {
		if now == nil && unread == nil {
			return errors.New("the node is not drained")
		}
		end := statefile.Remove
		if unread != nil { // else the next start may read it, and drain the node
			end = statefile.SetAside
		}
		if err := end(n.path); err != nil {
			return fmt.Errorf("ending the drain of the node: %w", err)
		}
		n.set(nil, nil)
		return nil
	}
	next := status.NodeDrain{Since: time.Now().UTC(), By: by.By, UID: by.UID, Why: by.Why}
	if now != nil {
		next.Since = now.Since
	}
	data, err := json.Marshal(nodeDrainJSON{nodeDrainVersion, next})
	if err == nil && unread != nil {
		err = statefile.SetAside(n.path)
	}
	if err == nil {
		err = statefile.Write(n.path, append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keeping the drain of the node: %w", err)
	}
	n.set(&next, nil)
	return nil
}

func (n *nodeDrain) set(now *status.NodeDrain, unread error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now, n.unread = now, unread
}

// drainNode answers `svcproxy node drain` and `undrain`.
func (c *console) drainNode(drain bool, by health.Author) error {
	if err := c.drained.Set(drain, by); err != nil {
		return err
	}
	e := events.Event{Time: time.Now(), Kind: events.Order, Text: "drain of the node " + by.String()}
	if !drain {
		e.Kind = events.OrderBack
	}
	c.proxy.Replan() // announcements follow it
	c.ring.Add(e)
	c.log.Info("node", "event", string(e.Kind), "text", e.Text)
	return nil
}

// inService reports whether the operator has not drained the node.
func (c *console) inService() bool { return c.drained == nil || c.drained.State() == nil }

// mayBeChosen reports whether load balancers may choose the node: it is in service, and the API server does
// not say that it goes away.
func (c *console) mayBeChosen() bool { return c.inService() && (c.eligible == nil || c.eligible()) }
