package health

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// overridesVersion is the schema of the JSON form. A program refuses a version that it does not know: it could take
// an order for another one.
const overridesVersion = 1

// overridesJSON is the JSON form of Overrides.
type overridesJSON struct {
	Version   int            `json:"version"`
	Overrides []overrideJSON `json:"overrides"`
}

type overrideJSON struct {
	Target    Selector  `json:"target"`
	Service   string    `json:"service,omitempty"`
	Verb      Verb      `json:"verb"`
	Weight    string    `json:"weight,omitempty"`
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until,omitzero"`
	By        string    `json:"by,omitempty"`
	UID       uint32    `json:"uid"`
	Why       string    `json:"why,omitempty"`
	Unmatched time.Time `json:"unmatchedSince,omitzero"`
}

// MarshalJSON returns the content of overrides.json, with times in UTC and whole seconds.
func (o Overrides) MarshalJSON() ([]byte, error) {
	j := overridesJSON{Version: overridesVersion, Overrides: make([]overrideJSON, 0, len(o))}
	second := func(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
	for _, x := range o {
		one := overrideJSON{x.Selector, x.Service, x.Verb, "", second(x.Made), second(x.Until), x.By, x.UID, x.Why,
			second(x.Unmatched)}
		if x.Verb == Reweigh {
			one.Weight = x.Weight.String()
		}
		j.Overrides = append(j.Overrides, one)
	}
	return json.Marshal(j)
}

// ParseOverrides reads the content of overrides.json. Overrides that are not well formed are left out, with an error
// for each. A schema version that is not known is an error for the whole.
func ParseOverrides(data []byte) (Overrides, error) {
	var file struct {
		Version   int               `json:"version"`
		Overrides []json.RawMessage `json:"overrides"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("overrides: %w", err)
	}
	if file.Version != overridesVersion {
		return nil, fmt.Errorf("overrides: %w %d, want %d", errVersion, file.Version, overridesVersion)
	}
	if len(file.Overrides) > maxOverrides {
		return nil, fmt.Errorf("overrides: %d of them, want %d at most", len(file.Overrides), maxOverrides)
	}
	var (
		all  Overrides
		errs []error
	)
	for i, raw := range file.Overrides {
		one, err := parseOverride(raw)
		if err != nil {
			errs = append(errs, fmt.Errorf("overrides: number %d: %w", i+1, err))
			continue
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, compareOverrides)
	all = slices.CompactFunc(all, func(a, b Override) bool { return a.Selector == b.Selector && a.outs() == b.outs() })
	return all, errors.Join(errs...)
}

// parseOverride reads one override. Fields that are not known are an error: they could limit the order.
func parseOverride(raw []byte) (Override, error) {
	var j overrideJSON
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return Override{}, err
	}
	o := Override{Selector: j.Target, Verb: j.Verb, Made: j.Since.UTC(), Until: j.Until.UTC(), By: j.By, UID: j.UID,
		Why: j.Why, Unmatched: j.Unmatched.UTC()}
	if o.Selector == (Selector{}) {
		return o, errors.New("it has no target")
	}
	if j.Service != "" {
		name, err := ParseService(j.Service)
		if err != nil || o.Service != "" && o.Service != name {
			return o, fmt.Errorf("service %q does not go with target %q", j.Service, o.Selector)
		}
		o.Service = name
	}
	if j.Verb == Reweigh || j.Weight != "" {
		w, err := ParseWeight(j.Weight)
		if err != nil {
			return o, err
		}
		o.Weight = w
		if j.Verb != Reweigh {
			return o, fmt.Errorf("%s has no weight", j.Verb)
		}
	}
	return o, o.check()
}
