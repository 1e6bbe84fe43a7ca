package events

import (
	"fmt"
	"time"

	"github.com/svcproxy/svcproxy/proxy/condition"
)

// OfCondition is the event of a condition that begins or ends.
func OfCondition(c condition.Condition, began bool) Event {
	e := Event{Time: time.Now(), Kind: Condition, Text: fmt.Sprintf("%s: %s; %s", c.Kind, c, c.Hint)}
	if !began {
		e.Kind, e.Text = ConditionOver, fmt.Sprintf("%s: %s (it stood for %v)", c.Kind, c,
			e.Time.Sub(c.Since).Round(time.Second))
	}
	return e
}
