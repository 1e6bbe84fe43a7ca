package daemon

import (
	"context"
	"path/filepath"
	"time"

	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/sources/file"
)

// storeIn has the tables that programs set, in stateDir.
func storeIn(stateDir string) *file.Store { return &file.Store{Dir: filepath.Join(stateDir, "tables")} }

// tableChanged tells of a table that a program set or removed. The source of files sees the change itself, unless it
// does not watch.
func (c *console) tableChanged(ctx context.Context, text string) {
	c.ring.Add(events.Event{Time: time.Now(), Kind: events.Table, Text: text})
	c.log.Info("table", "text", text)
	if !c.current.Now().Config.File.Watch {
		go c.files.Reload(ctx) // what it refuses is in status
	}
}
