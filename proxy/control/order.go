package control

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
)

// Verb is what an Order does: it gives an order, or takes one back.
type Verb string

// The verbs. Undrain and enable take back the same orders.
const (
	Drain   Verb = "drain"
	Disable Verb = "disable"
	Weight  Verb = "weight"

	Undrain  Verb = "undrain"
	Enable   Verb = "enable"
	Unweight Verb = "unweight" // the endpoint has the weight of its source again
)

// orders are the verbs that give an order.
var orders = map[Verb]health.Verb{Drain: health.Drain, Disable: health.Disable, Weight: health.Reweigh}

// TakesBack reports whether the verb takes an order back.
func (v Verb) TakesBack() bool { return v == Undrain || v == Enable || v == Unweight }

// Order is what the operator asks for. Who asks is known from the socket.
type Order struct {
	Verb   Verb
	Target health.Selector
	Weight health.Weight // of Weight
	For    time.Duration // 0 = until it is taken back
	Why    string
	Force  bool // even if it takes out the last usable endpoint
}

// values returns the query that parseOrder reads.
func (o Order) values() url.Values {
	target := o.Target
	target.Service = ""
	q := url.Values{"verb": {string(o.Verb)}, "target": {target.String()}}
	set := func(key, value string, given bool) {
		if given {
			q.Set(key, value)
		}
	}
	set("service", o.Target.Service, o.Target.Service != "")
	set("weight", o.Weight.String(), o.Verb == Weight)
	set("for", o.For.String(), o.For != 0)
	set("why", o.Why, o.Why != "")
	set("force", "1", o.Force)
	return q
}

// parseOrder reads the query of an order. A parameter that is unknown or given twice is an error, because it could have
// been meant to limit the order.
func parseOrder(q url.Values) (Order, error) {
	for key, values := range q {
		if !strings.Contains(" verb target service weight for why force ", " "+key+" ") {
			return Order{}, fmt.Errorf("parameter %.40q is not known", key)
		}
		if len(values) != 1 {
			return Order{}, fmt.Errorf("parameter %q is given %d times", key, len(values))
		}
	}
	o := Order{Verb: Verb(q.Get("verb")), Why: q.Get("why"), Force: q.Has("force")}
	switch {
	case orders[o.Verb] == "" && !o.Verb.TakesBack():
		return Order{}, fmt.Errorf("verb %.40q is not known", o.Verb)
	case o.Force && q.Get("force") != "1":
		return Order{}, fmt.Errorf("force %.40q is not 1", q.Get("force"))
	case o.Verb.TakesBack() && (o.Force || q.Has("for")):
		return Order{}, fmt.Errorf("%s has no force and no time", o.Verb)
	}
	err := health.Author{Why: o.Why}.Check()
	if err != nil {
		return Order{}, err
	}
	if o.Target, err = ParseTarget(q.Get("target"), q.Get("service")); err != nil {
		return Order{}, err
	}
	if o.Verb == Weight {
		if o.Weight, err = health.ParseWeight(q.Get("weight")); err != nil {
			return Order{}, err
		}
	} else if q.Has("weight") {
		return Order{}, fmt.Errorf("%s has no weight", o.Verb)
	}
	if q.Has("for") {
		if o.For, err = time.ParseDuration(q.Get("for")); err != nil || o.For < time.Second || o.For > maxFor {
			return Order{}, fmt.Errorf("for %.40q is not a time of at least 1s and at most %s", q.Get("for"), maxFor)
		}
	}
	return o, nil
}

// Check returns why the daemon would not read the order.
func (o Order) Check() error {
	_, err := parseOrder(o.values())
	return err
}

// maxFor bounds how long an order lasts that ends by itself: ten years.
const maxFor = 10 * 365 * 24 * time.Hour

// maxTarget bounds the text of a target, in bytes.
const maxTarget = 512

// ParseTarget reads what an order is for: the TARGET of a command and its flag --service, "" for none. A
// service limits a target of any form.
func ParseTarget(text, service string) (health.Selector, error) {
	if len(text)+len(service) > maxTarget {
		return health.Selector{}, fmt.Errorf("the target is longer than %d bytes", maxTarget)
	}
	s, err := health.ParseSelector(text)
	if err != nil || service == "" {
		return s, err
	}
	name, err := health.ParseService(service)
	if err != nil {
		return s, err
	}
	if s.Service != "" && s.Service != name {
		return s, fmt.Errorf("target %s is not of service %s", s, service)
	}
	s.Service = name
	return s, nil
}

// override returns the order as package health has it.
func (o *Order) override(by health.Author, now time.Time) health.Override {
	x := health.Override{
		Selector: o.Target, Verb: orders[o.Verb], Weight: o.Weight, Made: now, By: by.By, UID: by.UID, Why: by.Why,
	}
	if o.For > 0 {
		x.Until = now.Add(o.For)
	}
	return x
}
