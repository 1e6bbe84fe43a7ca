package health

import "time"

// Result is what one probe of a target found.
type Result struct {
	// Good: the endpoint answered as it should. Void: the probe failed for a reason of our own, such as a lack of
	// file descriptors, and says nothing about the endpoint.
	Good, Void bool
	Unsent     bool   // this node could not send the probe. Void is then the Board's to decide
	Reason     string // "refused", "status 500"; of a good result what the endpoint answered, or ""
	At         time.Time
	Took       time.Duration
	Expires    time.Time // when the endpoint's certificate expires; zero if it showed none
	Warning    string    // what is odd about the endpoint of a good result

	// A program may also ask for a share of the weight, or to be drained. For an agent Step fills them in.
	Percent uint16 // of the weight; 0 = not said, and so all of it
	Ask     Ask

	Agent bool // an agent answered; Words is what it said
	Words Words
}

// Ask is what an agent asks for its endpoint, though it is up.
type Ask uint8

// What agents ask for.
const (
	AskNothing Ask = iota
	AskDrain       // no new connections
	AskMaint       // no connections
)

// String returns HAProxy's word for it; "" for AskNothing.
func (a Ask) String() string { return askWords[a] }

var askWords = [...]string{"", "drain", "maint"}
