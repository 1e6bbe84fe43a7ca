package config

import "math"

// Key is one key of svcproxy.toml, for documentation, completion and schemas.
type Key struct {
	Name    string // dotted: ipvs.scheduler
	Flag    string // that sets the same, without its dashes; "" if there is none
	Kind    Kind
	Words   []string // that it may be, if those are all
	Min     int      // of an integer
	Max     int      // of an integer; math.MaxInt32 is no limit
	Default string   // as TOML
	Comment string   // one line
	Live    bool     // a reload can change it; else it needs a restart
}

// Kind is what a value must be.
type Kind string

// The kinds. A duration is a string as Go has them: "30s", "3h".
const (
	Text     Kind = "string"
	Word     Kind = "word" // one of Words
	Boolean  Kind = "boolean"
	Integer  Kind = "integer"
	Number   Kind = "number"
	Duration Kind = "duration"
	Address  Kind = "IP address"
	Listener Kind = `IP:port, or ""`
	Texts    Kind = "list of strings"
	Booleans Kind = "table of booleans"
)

// Keys are all keys of svcproxy.toml, in the order in which they are written,
// but for services, which is package sources/file's.
func Keys() []Key {
	c := Default()
	keys := make([]Key, len(fields))
	for i, f := range fields {
		v := f.value(&c)
		k := Key{Name: f.key, Flag: f.flag, Default: toml(v), Comment: f.comment, Live: f.live()}
		switch v := v.(type) {
		case choice:
			k.Kind, k.Words = Word, v.known
		case number:
			k.Kind, k.Min, k.Max = Integer, v.least, min(v.most, math.MaxInt32)
		case duration:
			k.Kind = Duration
		case address:
			k.Kind = Address
		case listener:
			k.Kind = Listener
		default:
			k.Kind = [...]Kind{formText: Text, formBool: Boolean, formInt: Integer, formFloat: Number, formList: Texts, formGates: Booleans}[v.form()]
		}
		keys[i] = k
	}
	return keys
}
