package events

import (
	"fmt"
	"slices"
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
		b.WriteString(": " + screen.Clean(e.names()))
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
	if e.By != "" {
		notes = append(notes, "asked by "+e.By)
	}
	if len(notes) > 0 {
		b.WriteString(" (" + screen.Clean(strings.Join(notes, ", ")) + ")")
	}
	if len(e.Changes) > 0 {
		b.WriteString(" [" + screen.Clean(e.changed()) + "]")
	}
	return b.String()
}

// Short is the event in a few words, without its time: "endpointDown: 10.2.1.10:8080 tcp refused: web".
func (e Event) Short() string {
	text := string(e.Kind) + ": " + e.Text
	if len(e.Services) > 0 {
		text += ": " + e.names()
	}
	return screen.Clean(text)
}

// names lists the services of the event.
func (e Event) names() string {
	text := strings.Join(e.Services, ", ")
	if e.More > 0 {
		text += fmt.Sprintf(" and %d more", e.More)
	}
	return text
}

// changed says what changed: the names of services are there if there are several.
func (e Event) changed() string {
	lines := slices.Clone(e.Changes)
	if len(e.Services) == 1 {
		for i, line := range lines {
			_, lines[i], _ = strings.Cut(line, ": ")
		}
	}
	return strings.Join(lines, " | ")
}
