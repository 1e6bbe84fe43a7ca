package events

import (
	"fmt"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/screen"
)

// Line is the event as one line for people. Its time is in the machine's time
// zone.
func (e Event) Line(colours bool) string {
	var b strings.Builder
	b.WriteString(e.Time.Local().Format("2006-01-02 15:04:05.000") + "  ")
	b.WriteString(screen.Paint(fmt.Sprintf("%-9s", e.Kind), e.Kind.Style(), colours) + "  " + screen.Clean(e.Text))
	if len(e.Services) > 0 {
		b.WriteString(": " + e.names())
	}
	var notes []string
	if e.Cause != "" && e.Cause != string(e.Kind) && e.Kind != Started {
		notes = append(notes, e.Cause)
	}
	if o := e.Ops; o != nil {
		notes = append(notes, fmt.Sprintf("+%d ~%d -%d", o.Add, o.Change, o.Remove))
		if o.Failed > 0 {
			notes = append(notes, fmt.Sprintf("%d failed", o.Failed))
		}
	}
	if e.Times != nil {
		notes = append(notes, "in "+e.Times.Total().Round(100*time.Microsecond).String())
	}
	if len(notes) > 0 {
		b.WriteString(" (" + strings.Join(notes, ", ") + ")")
	}
	return b.String()
}

// names lists the services of the event, without the default namespace.
func (e Event) names() string {
	short := make([]string, len(e.Services))
	for i, name := range e.Services {
		short[i] = strings.TrimPrefix(name, "default/")
	}
	text := strings.Join(short, ", ")
	if e.More > 0 {
		text += fmt.Sprintf(" and %d more", e.More)
	}
	return text
}
