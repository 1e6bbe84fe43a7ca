package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// Sort is what the services are sorted by.
type Sort byte

// The orders. The zero value is not one of them: it means ByConns.
const (
	ByConns Sort = 'c' // connections a second
	ByBytes Sort = 'b' // bytes a second, both ways
	ByName  Sort = 'n'
)

// View is what is shown, and on what. Its zero is everything, as plain text.
type View struct {
	Sort      Sort
	Endpoints bool // below their services
	First     int  // service of the list that is shown first
	Width     int  // of the terminal; 0 = any
	Height    int  // 0 = no terminal: all rows, and no line about keys
	Colours   bool
	Away      error // why there is no newer status
}

// Frame draws a status and its rates since an earlier one; of a zero one there
// are none. With a height it has exactly as many lines as fit.
func Frame(now, before status.Status, v View) string {
	rows, total := rowsOf(&now, &before)
	order(rows, v.Sort)
	lines := head(&now, total, v)
	list := body(rows, &now, v)
	if v.Height > 0 {
		list = list[:min(len(list), max(2, v.Height-len(lines)-1))]
		for len(lines)+len(list) < v.Height-1 {
			list = append(list, "")
		}
		list = append(list, keys(v, len(rows)))
	}
	lines = append(lines, list...)
	return strings.Join(lines, "\n") + "\n"
}

// maxShown is how many services there is detail of where there is no screen that
// ends.
const maxShown = 50

// Shown are the services whose endpoints a frame has room for.
func Shown(now, before status.Status, v View) []string {
	if !v.Endpoints {
		return nil
	}
	rows, _ := rowsOf(&now, &before)
	order(rows, v.Sort)
	rows = rows[min(v.First, len(rows)):]
	n := maxShown
	if v.Height > 0 {
		n = v.Height
	}
	var names []string
	for _, r := range rows[:min(n, len(rows))] {
		names = append(names, r.Name)
	}
	return names
}

// maxTrouble is how many lines are spent on what is wrong, and on drains.
const maxTrouble = 3

// head is the daemon, what goes through it, what is wrong and what drains.
func head(st *status.Status, total rates, v View) []string {
	lines := []string{
		fmt.Sprintf("svcproxy %s on %s  %s  up %s", st.Daemon.Version, st.Daemon.Node, st.Time.Local().Format(time.TimeOnly), screen.Age(st.Time.Sub(st.Daemon.Started))),
		fmt.Sprintf("connections: %s active, %s inactive, %s new/s; in %s/s, out %s/s",
			screen.Count(st.Totals.Active), screen.Count(st.Totals.Inactive), total.text(total.conns, 1000), total.text(total.in, 1024), total.text(total.out, 1024)),
	}
	for i := range lines {
		lines[i] = cut(lines[i], v, screen.Plain)
	}
	add := func(label string, style screen.Style, list []string) {
		for i, text := range list {
			switch {
			case i == maxTrouble:
				return
			case i == maxTrouble-1 && len(list) > maxTrouble:
				text = fmt.Sprintf("and %d more", len(list)-i)
			}
			lines = append(lines, cut(label+": "+text, v, style))
		}
	}
	if v.Away != nil {
		add("away", screen.Bad, []string{v.Away.Error()})
	}
	add("degraded", screen.Bad, st.Problems)
	add("warning", screen.Warn, st.Warnings)
	add("draining", screen.Warn, status.Drains(st, maxTrouble))
	return append(lines, "")
}

func cut(text string, v View, style screen.Style) string {
	text = screen.Clean(text)
	if v.Width > 0 {
		text = screen.Cut(text, v.Width)
	}
	return screen.Paint(text, style, v.Colours)
}

func short(name string) string { return strings.TrimPrefix(name, "default/") }

// body is the heading and the rows.
func body(rows []row, st *status.Status, v View) []string {
	c := &screen.Columns{Elastic: []int{7, 0}}
	c.Heading("SERVICE", ">NEW/S", ">IN/S", ">OUT/S", ">ACTIVE", ">INACTIVE", ">BACKENDS", "STATE")
	for _, r := range rows[min(v.First, len(rows)):] {
		c.Row(append(r.rates.cells(short(r.Name)), number(screen.Count(r.Active)), number(screen.Count(r.Inactive)), number(r.Backends.String()), r.Service.Cell())...)
		if !v.Endpoints {
			continue
		}
		for _, e := range r.endpoints {
			c.Row(append(e.rates.cells("  "+e.Address.String()), number(screen.Count(e.Active)), number(screen.Count(e.Inactive)), text(""), e.Endpoint.Cell(st.Time))...)
		}
	}
	return c.Lines(v.Width, v.Colours)
}

func text(s string) screen.Cell   { return screen.Cell{Text: s} }
func number(s string) screen.Cell { return screen.Cell{Text: s, Right: true} }

// cells are a name and its rates.
func (r rates) cells(name string) []screen.Cell {
	return []screen.Cell{text(name), number(r.text(r.conns, 1000)), number(r.text(r.in, 1024)), number(r.text(r.out, 1024))}
}

// text is a rate, or a dash where there is none.
func (r rates) text(rate, base float64) string {
	if !r.known {
		return "-"
	}
	return screen.Rate(rate, base)
}

// keys is the last line.
func keys(v View, services int) string {
	by := map[Sort]string{ByBytes: "bytes", ByName: "name"}[v.Sort]
	return cut(fmt.Sprintf("%d services by %s · c b n sort · e endpoints · ↑↓ scroll · q quit",
		services, cmp.Or(by, "connections")), v, screen.Faint)
}
