package health

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Verb is what the operator ordered for endpoints.
type Verb string

// The verbs. A drain keeps the connections that are there; disable cuts them.
const (
	Drain   Verb = "drain"
	Disable Verb = "disable"
	Reweigh Verb = "weight"
)

// Override is one order of the operator.
type Override struct {
	Selector
	Verb   Verb
	Weight Weight // of Reweigh

	Made  time.Time
	Until time.Time // zero = until it is taken back
	By    string    // who gave it: the name of the user
	UID   uint32    // of the peer of the control socket
	Why   string    // in the operator's words

	// Unmatched is since when no table has an endpoint that it is for; zero if there is one.
	Unmatched time.Time
}

// Author is who gave an order or took it back, and why.
type Author struct {
	By  string // the name of the user
	UID uint32
	Why string
}

// String returns `by root (uid 0): "kernel upgrade"`.
func (a Author) String() string {
	text := fmt.Sprintf("by %s (uid %d)", a.By, a.UID)
	if a.Why != "" {
		text += ": " + strconv.Quote(a.Why)
	}
	return text
}

// Check returns an error if a text is too long, or could confuse a terminal.
func (a Author) Check() error {
	if err := checkText("by", a.By, 64); err != nil {
		return err
	}
	return checkText("why", a.Why, 200)
}

func checkText(name, text string, limit int) error {
	if len(text) > limit {
		return fmt.Errorf("%s is longer than %d bytes", name, limit)
	}
	if strings.ContainsFunc(text, unprintable) {
		return fmt.Errorf("%s %q has characters that cannot be printed", name, text)
	}
	return nil
}

// Expired reports whether the override's time is over.
func (o *Override) Expired(now time.Time) bool { return !o.Until.IsZero() && !now.Before(o.Until) }

// outs reports whether the override takes endpoints out, rather than to give them another weight.
func (o *Override) outs() bool { return o.Verb == Drain || o.Verb == Disable }

// String returns the override as a person would say it: `drained by root: "kernel upgrade"`.
func (o *Override) String() string {
	said := map[Verb]string{Drain: "drained", Disable: "disabled", Reweigh: "weight " + o.Weight.String()}[o.Verb]
	if o.By != "" {
		said += " by " + o.By
	}
	if !o.Until.IsZero() {
		said += " until " + o.Until.UTC().Format(time.RFC3339)
	}
	if o.Why != "" {
		said += ": " + strconv.Quote(o.Why)
	}
	return said
}

// maxWeight is the largest weight of an endpoint, as sources.Validate has it.
const maxWeight = 65535

// maxPercent is the largest share of an endpoint's weight.
const maxPercent = 1000

// Weight is a weight of its own, or a percentage of the one that the table has.
type Weight struct {
	N       uint32
	Percent bool
}

// ParseWeight reads "3" or "50%".
func ParseWeight(text string) (Weight, error) {
	digits, percent := strings.CutSuffix(text, "%")
	limit := uint64(maxWeight)
	if percent {
		limit = maxPercent
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n > limit {
		return Weight{}, fmt.Errorf("weight %q is not a number from 0 to %d or a percentage from 0%% to %d%%", text,
			maxWeight, maxPercent)
	}
	return Weight{uint32(n), percent}, nil
}

// String returns what ParseWeight reads.
func (w Weight) String() string {
	s := strconv.FormatUint(uint64(w.N), 10)
	if w.Percent {
		s += "%"
	}
	return s
}

// check returns why an override is not well formed.
func (o *Override) check() error {
	if o.Verb != Drain && o.Verb != Disable && o.Verb != Reweigh {
		return fmt.Errorf("verb %q is not drain, disable or weight", o.Verb)
	}
	if o.Verb != Reweigh && o.Weight != (Weight{}) {
		return fmt.Errorf("%s has no weight", o.Verb)
	}
	if err := (Author{By: o.By, Why: o.Why}).Check(); err != nil {
		return err
	}
	if err := checkText("target", o.Selector.String(), 512); err != nil {
		return err
	}
	if !o.Until.IsZero() && o.Until.Sub(o.Made) < time.Second {
		return fmt.Errorf("it ends at %s, less than a second after its start", o.Until.Format(time.RFC3339))
	}
	return nil
}
