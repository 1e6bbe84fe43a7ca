package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/health"
)

// Orders keeps the orders of the operator. *checker.Checker implements it.
type Orders interface {
	// Order adds an order. Without force it may be health.ErrLast or health.ErrNone.
	Order(o health.Override, force bool) error
	// TakeBack removes an order: one that takes endpoints out, or a weight.
	TakeBack(s health.Selector, outs bool, by health.Author) error
	Overrides() health.Overrides
}

// applyLimit is how long an answer to an order waits until the kernel has it.
const applyLimit = 15 * time.Second

// Ordered is the answer to an order. Its JSON form is stable.
type Ordered struct {
	Verb   Verb      `json:"verb"`
	Target string    `json:"target"`
	Until  time.Time `json:"until,omitzero"`
	// Endpoints are what the order is for in the table of now. It is never null.
	Endpoints []Place `json:"endpoints"`
	// Pending is why the kernel does not have it yet; "" if it has.
	Pending string `json:"pending,omitempty"`
}

// Place is one port of an endpoint of a service.
type Place struct {
	Service  string         `json:"service"`
	Protocol string         `json:"protocol"` // in lower case
	Address  netip.AddrPort `json:"address"`
}

// order answers POST /v1/order.
func (s *Server) order(w http.ResponseWriter, r *http.Request) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	var o Order
	if err == nil {
		o, err = parseOrder(q)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	by, err := author(r, o.Why)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	x := o.override(by, time.Now())
	if o.Verb.TakesBack() {
		err = s.Orders.TakeBack(o.Target, o.Verb != Unweight, by)
	} else {
		err = s.Orders.Order(x, o.Force)
	}
	if err != nil {
		code := http.StatusUnprocessableEntity
		if errors.Is(err, health.ErrLast) || errors.Is(err, health.ErrNone) {
			code = http.StatusConflict
		}
		http.Error(w, err.Error(), code)
		return
	}
	done := Ordered{Verb: o.Verb, Target: o.Target.String(), Until: x.Until.UTC(), Endpoints: []Place{}}
	places := s.Places(o.Target)
	if o.Target.Service != "" && len(places) > 0 {
		done.Target = o.Target.As(places[0].Service)
	}
	for _, p := range places {
		done.Endpoints = append(done.Endpoints, Place{p.Service, strings.ToLower(p.Protocol.String()), p.Addr})
	}
	ctx, cancel := context.WithTimeout(r.Context(), applyLimit)
	defer cancel()
	if err := s.Applied(ctx, places); err != nil {
		done.Pending = err.Error()
	}
	answer(w, done)
}

// overrides answers GET /v1/overrides.
func (s *Server) overrides(w http.ResponseWriter, _ *http.Request) { answer(w, s.Orders.Overrides()) }

// Order gives an order or takes one back. It returns when the kernel has it.
func (c Client) Order(ctx context.Context, o Order) (done Ordered, err error) {
	ctx, cancel := context.WithTimeout(ctx, applyLimit+askLimit)
	defer cancel()
	err = c.ask(ctx, http.MethodPost, "/v1/order?"+o.values().Encode(), func(r io.Reader) error {
		return json.NewDecoder(r).Decode(&done)
	})
	refused, ok := errors.AsType[*refusedError](err)
	if !ok {
		return done, err
	}
	e := refused.exit()
	if refused.code == http.StatusConflict {
		e.Hint = "add --force to do it all the same"
	}
	return done, e
}

// maxOverrides bounds the answer of Overrides, in bytes.
const maxOverrides = 16 << 20

// Overrides asks for the orders that stand.
func (c Client) Overrides(ctx context.Context) (list health.Overrides, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	err = c.ask(ctx, http.MethodGet, "/v1/overrides", func(r io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(r, maxOverrides))
		if err == nil {
			list, err = health.ParseOverrides(text)
		}
		return err
	})
	return list, err
}

// refusedError is an answer that is an error.
type refusedError struct {
	code int // of HTTP
	text string
}

// exit is the error of a command that got this answer.
func (e *refusedError) exit() *cli.Error {
	code := cli.Failed
	if e.code == http.StatusBadRequest {
		code = cli.Usage
	}
	return &cli.Error{Code: code, Err: errors.New(e.text)}
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("asking svcproxy: %s", cmp.Or(e.text, http.StatusText(e.code)))
}
