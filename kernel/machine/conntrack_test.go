package machine

import (
	"strings"
	"testing"
	"time"
)

func TestConntrackTrouble(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		before, now Conntrack
		window      time.Duration
		want        string
	}{
		"not loaded":        {Conntrack{}, Conntrack{}, 5 * second, ""},
		"some":              {Conntrack{}, Conntrack{Entries: 89, Max: 100}, 5 * second, ""},
		"nearly full":       {Conntrack{}, Conntrack{Entries: 90, Max: 100}, 5 * second, "nearly full: 90 of 100"},
		"earlier":           {Conntrack{NoRoom: 9, NoEntry: 99}, Conntrack{Entries: 50, Max: 100, NoRoom: 9, NoEntry: 99}, 5 * second, ""},
		"evicted":           {Conntrack{NoRoom: 8}, Conntrack{Entries: 50, Max: 100, NoRoom: 9}, 5 * second, "had no room 1 time in 5s"},
		"a clash":           {Conntrack{}, Conntrack{Entries: 10, Max: 100, NoRoom: 5, NoEntry: 5}, 5 * second, ""},
		"clashes":           {Conntrack{NoEntry: 2}, Conntrack{Entries: 10, Max: 100, NoEntry: 100}, 5 * second, "dropped packets 98 times in 5s"},
		"a short look":      {Conntrack{}, Conntrack{Entries: 10, Max: 100, NoEntry: 5}, second, ""},
		"counters restart":  {Conntrack{NoEntry: 500, NoRoom: 500}, Conntrack{Entries: 60, Max: 100, NoEntry: 1}, 5 * second, ""},
		"the limit is less": {Conntrack{}, Conntrack{Entries: 100, Max: 1}, 5 * second, "nearly full: 100 of 1"},
	} {
		text, hint := c.now.Trouble(c.before, c.window)
		if (text == "") != (c.want == "") || (hint == "") != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, %q", name, text, hint)
		}
	}
}
