package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/sources"
)

// topView is what a frame of `svcproxy top` shows, and on what. Its zero shows
// all services as plain text.
type topView struct {
	sort      topSort
	endpoints bool // below their services
	first     int  // index of the first service shown
	width     int  // of the terminal; 0 = any
	height    int  // of the terminal; 0 = none: all rows, and no line about keys
	colours   bool
	away      error // why there is no newer status
}

// frame draws a status and the rates since an earlier one. If the earlier one is
// zero there are no rates. With a height the frame has exactly that many lines.
func (v topView) frame(now, before Status) string {
	rows, total := serviceRatesOf(&now, &before)
	v.sort.sort(rows)
	lines := v.head(&now, total)
	list := v.body(rows, &now)
	if v.height > 0 {
		list = list[:min(len(list), max(2, v.height-len(lines)-1))]
		for len(lines)+len(list) < v.height-1 {
			list = append(list, "")
		}
		list = append(list, v.keys(len(rows)))
	}
	lines = append(lines, list...)
	return strings.Join(lines, "\n") + "\n"
}

// maxShown bounds the services that are shown with endpoints where no screen does.
const maxShown = 50

// shown names the services whose endpoints the next frame has room for.
func (v topView) shown(now, before Status) []string {
	if !v.endpoints {
		return nil
	}
	rows, _ := serviceRatesOf(&now, &before)
	v.sort.sort(rows)
	rows = rows[min(v.first, len(rows)):]
	n := maxShown
	if v.height > 0 {
		n = v.height
	}
	var names []string
	for _, r := range rows[:min(n, len(rows))] {
		names = append(names, r.Name)
	}
	return names
}

// maxHeadLines bounds the lines of each kind above the services: problems,
// warnings, drains.
const maxHeadLines = 3

// head is the daemon, its totals, its problems and its drains.
func (v topView) head(st *Status, total rates) []string {
	lines := []string{
		fmt.Sprintf("svcproxy %s on %s  %s  up %s", st.Daemon.Version, st.Daemon.Node, st.Time.Local().Format(time.TimeOnly),
			screen.Age(st.Time.Sub(st.Daemon.Started))),
		fmt.Sprintf("connections: %s active, %s inactive, %s new/s; in %s/s, out %s/s",
			st.Count(st.Totals.Active), st.Count(st.Totals.Inactive), total.new(), total.bytes(total.in),
			total.bytes(total.out)),
	}
	for i := range lines {
		lines[i] = v.line(lines[i], screen.Plain)
	}
	add := func(label string, style screen.Style, list []string) {
		for i, text := range list {
			switch {
			case i == maxHeadLines:
				return
			case i == maxHeadLines-1 && len(list) > maxHeadLines:
				text = fmt.Sprintf("and %d more", len(list)-i)
			}
			lines = append(lines, v.line(label+": "+text, style))
		}
	}
	if v.away != nil {
		add("away", screen.Bad, []string{v.away.Error()})
	}
	add("degraded", screen.Bad, st.Problems)
	add("warning", screen.Warn, st.Warnings)
	add("draining", screen.Warn, drainLines(st, maxHeadLines))
	return append(lines, "")
}

// line cuts a text to the width of the terminal.
func (v topView) line(text string, style screen.Style) string {
	text = screen.Clean(text)
	if v.width > 0 {
		text = screen.Cut(text, v.width)
	}
	return screen.Paint(text, style, v.colours)
}

// body is the heading, the services and their endpoints.
func (v topView) body(rows []serviceRates, st *Status) []string {
	c := &screen.Columns{Elastic: []int{7, 0}}
	heading := []string{"SERVICE", ">NEW/S", ">IN/S", ">OUT/S", ">ACTIVE", ">INACTIVE", ">BACKENDS", "STATE"}
	if st.Health != nil {
		c.Elastic, heading = []int{8, 7, 0}, append(heading, "HEALTH")
	}
	c.Heading(heading...)
	add := func(row []screen.Cell, health screen.Cell) {
		if st.Health != nil {
			row = append(row, health)
		}
		c.Row(row...)
	}
	for _, r := range rows[min(v.first, len(rows)):] {
		add(append(r.rates.cells(r.Name), number(st.Count(r.Active)), number(st.Count(r.Inactive)),
			number(r.Backends.String()), r.Service.Cell()), r.Service.Health.Cell())
		if !v.endpoints {
			continue
		}
		for _, e := range r.endpoints {
			add(append(e.rates.cells("  "+e.place()), number(st.Count(e.Active)), number(st.Count(e.Inactive)),
				text(""), e.Endpoint.Cell(st.Time)), e.Endpoint.Health.Cell())
		}
	}
	return c.Lines(v.width, v.colours)
}

// cells are a name and its rates.
func (r rates) cells(name string) []screen.Cell {
	return []screen.Cell{text(name), number(r.new()), number(r.bytes(r.in)), number(r.bytes(r.out))}
}

// new is the rate of new connections, or a dash if it is not known.
func (r rates) new() string {
	if !r.known {
		return "-"
	}
	return screen.Rate(r.conns, 1000)
}

// bytes is a rate of bytes, or a dash if it is not known.
func (r rates) bytes(rate float64) string {
	if !r.known || r.newOnly {
		return "-"
	}
	return screen.Rate(rate, 1024)
}

// keys is the last line: how many services there are, and the keys.
func (v topView) keys(services int) string {
	by := map[topSort]string{byBytes: "bytes", byName: "name"}[v.sort]
	return v.line(fmt.Sprintf("%s by %s · c b n sort · e endpoints · ↑↓ scroll · q quit",
		sources.Count(services, "service"), cmp.Or(by, "connections")), screen.Faint)
}
