package daemon

import (
	"context"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// storeIn has the tables that programs set, in stateDir.
func storeIn(stateDir string) *file.Store { return &file.Store{Dir: filepath.Join(stateDir, "tables")} }

// tableRead is how long a change of a table may take until the source of files has it.
const tableRead = 10 * time.Second

// tableChanged tells of a table that a program set or removed, and has the source of files read that file alone: the
// others may be half written. It returns what became of the table if the client waits, else nil.
func (c *console) tableChanged(ctx context.Context, t control.TableChange) *control.Reloaded {
	if t.Text != "" {
		c.ring.Add(events.Event{Time: time.Now(), Kind: events.Order, Text: t.Text})
		c.log.Info("table", "text", t.Text)
	}
	defer c.askers.add(control.AskedBy(ctx))()
	path := c.tables.Path(t.Name)
	reading, cancel := context.WithTimeout(ctx, tableRead)
	defer cancel()
	c.files.ReloadFile(reading, path) // what it refuses is in status
	if !t.Wait {
		return nil
	}
	done := control.Nothing()
	now, err := c.proxy.Confirm(ctx)
	if err != nil {
		done.Failed = append(done.Failed, "the table is not served yet: "+err.Error())
		return &done
	}
	done.Failed = failed(now.Report.Err)
	done.Conflicts = append(done.Conflicts, conflictsOf(now, path)...)
	return &done
}

// conflictsOf are the parts of a file's services that another service or program has, one line each.
func conflictsOf(now *proxy.Snapshot, path string) (lines []string) {
	var vips []netip.Addr
	for _, s := range now.Table.Services.All() {
		if s.Origin.Source == sources.Files && s.Origin.File == path {
			for _, vip := range s.VIPs {
				vips = append(vips, vip)
			}
		}
	}
	for _, p := range now.Report.Problems {
		if p.Origin.File == path {
			lines = append(lines, p.Error())
		}
	}
	for _, c := range now.Report.Plan.Conflicts {
		if slices.Contains(vips, c.Want.Key.Addr) {
			lines = append(lines, c.String())
		}
	}
	for _, taken := range now.Report.Plan.Taken {
		if slices.Contains(vips, taken.Addr) {
			lines = append(lines, taken.String())
		}
	}
	return lines
}
