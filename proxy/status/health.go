package status

import (
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/screen"
)

// Health is about all health checks of this node, and the orders of the operator.
type Health struct {
	// Targets counts what is probed: a target is probed once, however many services share it.
	Targets int                 `json:"targets"`
	States  map[HealthState]int `json:"states"` // targets by state
	Panic   int                 `json:"panic"`  // services of which endpoints that are down serve
	// Blind says why no probe tells anything at present; "" if probes do. States are then the last ones.
	Blind string `json:"blind,omitempty"`
	// Held is until when the last states count, after a mass failure; zero if there is none.
	Held time.Time `json:"heldUntil,omitzero"`
	// ExecWaiting counts exec checks that have waited for a place for more than three of their intervals, the oldest since
	// ExecWaitingSince.
	ExecWaiting      int        `json:"execWaiting,omitempty"`
	ExecWaitingSince time.Time  `json:"execWaitingSince,omitzero"`
	Probes           Probes     `json:"probes"`
	Overrides        []Override `json:"overrides"` // sorted by target
}

// Probes counts the probes since the start, and says how late they start.
type Probes struct {
	Started  uint64 `json:"started"`
	Void     uint64 `json:"void"` // that failed by our own fault
	InFlight int    `json:"inFlight"`
	// Of all probes 99 % started at most LateSeconds after they were due, and all of them LateMaxSeconds.
	LateSeconds    float64 `json:"lateSeconds"`
	LateMaxSeconds float64 `json:"lateMaxSeconds"`
}

// Override is an order of the operator.
type Override struct {
	Target  string    `json:"target"` // as svcproxy drain takes it
	Service string    `json:"service,omitempty"`
	Verb    string    `json:"verb"`             // drain, disable, weight
	Weight  string    `json:"weight,omitempty"` // "3", "50%"
	By      string    `json:"by,omitempty"`     // the name of the user
	UID     uint32    `json:"uid"`
	Why     string    `json:"why,omitempty"`
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until,omitzero"`
	// Unmatched is since when no table has an endpoint that the order is for.
	Unmatched time.Time `json:"unmatchedSince,omitzero"`
}

// ServiceHealth counts a service's endpoints by their health, each once for each port.
type ServiceHealth struct {
	Checked int `json:"checked"` // that are probed
	Up      int `json:"up"`
	Held    int `json:"held"` // down, but they count as up: see Health.Held
	Down    int `json:"down"` // the others that are down
	Out     int `json:"out"`  // drained or disabled by the operator
	// Groups are those in which others serve than the endpoints that are up.
	Groups []HealthGroup `json:"groups"`
}

// HealthGroup is the endpoints of one port and one IP family: those that one virtual server chooses from.
type HealthGroup struct {
	Port     string     `json:"port,omitempty"`
	Number   uint16     `json:"number"` // of the service port; 0 behind a mark
	Protocol string     `json:"protocol"`
	Family   string     `json:"family"` // IPv4, IPv6
	Mode     HealthMode `json:"mode"`
	Up       int        `json:"up"` // endpoints that are up, of those that could serve
	Of       int        `json:"of"`
}

// EndpointHealth says why an endpoint has its weight.
type EndpointHealth struct {
	State HealthState `json:"state"`
	Cause HealthCause `json:"cause"`
	Text  string      `json:"text"`            // in words: "down 12s: refused"
	Check string      `json:"check,omitempty"` // what is probed: "tcp 10.2.1.10:8080"
	// Since is when the endpoint last went up or down, and Reason that of the result which decided it. Since is zero if
	// the state was taken over from the kernel.
	Since  time.Time `json:"since,omitzero"`
	Reason string    `json:"reason,omitempty"`
	// Run counts the last results in a row that speak against State.
	Run      int          `json:"run,omitempty"`
	Held     bool         `json:"held,omitempty"`     // it is down and counts as up: a mass failure
	Flapping bool         `json:"flapping,omitempty"` // it changes too often, and is up only after more good results
	Last     *ProbeResult `json:"last,omitempty"`
	// Next is when it is probed next; zero while a probe runs, and in a status that is not of Reader.Checks.
	Next time.Time `json:"nextProbe,omitzero"`
	Void uint64    `json:"void,omitempty"` // results that say nothing, by our own fault
	// Blind says why the last results, several of them, say nothing; "" if they do. State is then the last one.
	Blind string `json:"blind,omitempty"`
	// SourceWeight is the weight before health and orders.
	SourceWeight uint32    `json:"sourceWeight"`
	Override     *Override `json:"override,omitempty"`
	// Expires is when the endpoint's certificate expires; zero if none is known.
	Expires time.Time `json:"certificateExpires,omitzero"`
	Days    *int      `json:"certificateDays,omitempty"` // until then, rounded down

	target health.Key // zero if it is not probed
}

// ProbeResult is the last result of a probe that was not void.
type ProbeResult struct {
	Good    bool      `json:"good"`
	Answer  string    `json:"answer,omitempty"`  // of the endpoint; of a bad result the reason
	Warning string    `json:"warning,omitempty"` // what is odd about the endpoint of a good result
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds"` // from its start to its end
}

// HealthState is what the probes of an endpoint found: a health.Phase, or Unchecked.
type HealthState string

// Unchecked is the state of an endpoint that is not probed.
const Unchecked HealthState = "unchecked"

// healthStates is the only list of these states with their meaning.
var healthStates = screen.Terms[HealthState]{
	{Word: "up", Meaning: "its probes are good", Style: screen.Good},
	{Word: "failing", Meaning: "up; its last probes were bad", Style: screen.Warn},
	{Word: "down", Meaning: "its probes are bad", Style: screen.Bad},
	{Word: "recovering", Meaning: "down; its last probes were good", Style: screen.Warn},
	{Word: "unknown", Meaning: "it has no result yet", Style: screen.Faint},
	{Word: Unchecked, Meaning: "it is not probed", Style: screen.Faint},
}

// HealthStates lists every state that probes can find.
func HealthStates() []HealthState { return healthStates.Words() }

// Meaning explains the state to an operator.
func (s HealthState) Meaning() string { return healthStates.Find(s).Meaning }

// Style is how the state looks on a terminal and on the web page.
func (s HealthState) Style() screen.Style { return healthStates.Find(s).Style }

// HealthCause is why an endpoint has its weight: a health.Cause.
type HealthCause string

// healthCauses is the only list of these causes with their meaning.
var healthCauses = screen.Terms[HealthCause]{
	{Word: "serves", Meaning: "it is up, or not checked", Style: screen.Good},
	{Word: "spared", Meaning: "down, serves because too few are up", Style: screen.Bad},
	{Word: "drained", Meaning: "by an order, also of weight 0", Style: screen.Warn},
	{Word: "disabled", Meaning: "by an order", Style: screen.Warn},
	{Word: "asked", Meaning: "its agent asks for drain or maintenance", Style: screen.Warn},
	{Word: "by file", Meaning: "weight 0 or not ready in its source", Style: screen.Faint},
	{Word: "down", Meaning: "it is down", Style: screen.Bad},
	{Word: "waits", Meaning: "it has no result yet", Style: screen.Warn},
	{Word: "standby", Meaning: "a backup while others are up", Style: screen.Faint},
}

// HealthCauses lists every cause.
func HealthCauses() []HealthCause { return healthCauses.Words() }

// Meaning explains the cause to an operator.
func (c HealthCause) Meaning() string { return healthCauses.Find(c).Meaning }

// Style is how an endpoint with the cause looks on a terminal and on the web page.
func (c HealthCause) Style() screen.Style { return healthCauses.Find(c).Style }

// HealthMode is which endpoints of a group serve: a health.Mode.
type HealthMode string

// healthModes is the only list of these modes with their meaning.
var healthModes = screen.Terms[HealthMode]{
	{Word: "normal", Meaning: "those serve that are up", Style: screen.Good},
	{Word: "on backups", Meaning: "the backups serve, because no other is up", Style: screen.Warn},
	{Word: "fail open", Meaning: "all serve, because none is up", Style: screen.Bad},
	{Word: "below limit", Meaning: "all serve, because fewer than `minHealthy` are up", Style: screen.Bad},
	{Word: "fail closed", Meaning: "none serves, because none is up", Style: screen.Bad},
	{Word: "first result", Meaning: "none serves, because all wait for their first result", Style: screen.Warn},
}

// HealthModes lists every mode.
func HealthModes() []HealthMode { return healthModes.Words() }

// Meaning says which endpoints serve.
func (m HealthMode) Meaning() string { return healthModes.Find(m).Meaning }

// Style is how the mode looks on a terminal and on the web page.
func (m HealthMode) Style() screen.Style { return healthModes.Find(m).Style }

// override describes an order.
func (in Input) override(o *health.Override) *Override {
	if o == nil {
		return nil
	}
	d := Override{
		Target: o.In(in.Health.Table), Service: in.Health.Table.DisplayName(o.Service), Verb: string(o.Verb), By: o.By,
		UID: o.UID, Why: o.Why,
		Since: in.at(o.Made), Until: in.at(o.Until), Unmatched: in.at(o.Unmatched),
	}
	if o.Verb == health.Reweigh {
		d.Weight = o.Weight.String()
	}
	return &d
}
