package kernel

import (
	"encoding/json"
	"strings"
)

// The JSON form of a plan, `svcproxy plan -o json`. Fields are only ever added.
type planJSON struct {
	Ops       []opJSON       `json:"ops"`
	Add       int            `json:"add"`
	Change    int            `json:"change"`
	Remove    int            `json:"remove"`
	Draining  int            `json:"draining"`
	Conflicts []conflictJSON `json:"conflicts"`
	Warnings  []string       `json:"warnings"`
	Taken     []string       `json:"taken"`
	Probes    []string       `json:"probes"`
}

type opJSON struct {
	Verb   string   `json:"verb"` // add, change, remove
	Kind   string   `json:"kind"`
	Object string   `json:"object"` // canonical text
	Was    string   `json:"was,omitempty"`
	Rules  []string `json:"rules,omitempty"` // of a chain
}

type conflictJSON struct {
	Want string `json:"want"`
	Have string `json:"have"`
}

var verbNames = [...]string{Add: "add", Change: "change", Remove: "remove"}

// MarshalJSON gives the documented form.
func (p Plan) MarshalJSON() ([]byte, error) {
	j := planJSON{Ops: make([]opJSON, 0, len(p.Ops)), Draining: p.Draining,
		Conflicts: make([]conflictJSON, 0, len(p.Conflicts)), Warnings: append([]string{}, p.warnings()...),
		Taken: []string{}, Probes: []string{}}
	j.Add, j.Change, j.Remove = p.Counts()
	for _, o := range p.Ops {
		op := opJSON{Verb: verbNames[o.Verb], Kind: o.Object.Kind().String(), Object: o.Object.String()}
		if o.Verb == Change && o.Was != nil {
			op.Was = o.Was.String()
		}
		c, _ := o.Object.(Chain)
		if other, ok := o.Object.(OtherChain); ok {
			c = other.Chain
		}
		if c.Rules != "" {
			op.Rules = strings.Split(c.Rules, "\n")
		}
		j.Ops = append(j.Ops, op)
	}
	for _, c := range p.Conflicts {
		j.Conflicts = append(j.Conflicts, conflictJSON{Want: c.Want.String(), Have: c.Have.String()})
	}
	for _, t := range p.Taken {
		j.Taken = append(j.Taken, t.String())
	}
	for _, c := range p.Probes {
		j.Probes = append(j.Probes, c.String())
	}
	return json.Marshal(j)
}
