package kernel

// Gate is a base chain of another program with rules that drop or reject single packets.
// What it does to packets that no rule decides about is a Barrier's to say.
type Gate struct {
	Family Family // 0: both
	Hook   string // where: prerouting, input, forward, output, postrouting
	Name   string // for people: "iptables filter INPUT"
	Rules  []GateRule
}

// GateRule is a rule that ends a packet's way through its hook: those of chains that are
// jumped to are in their places.
type GateRule struct {
	Matches string // as iptables-save prints them: those of the jumps to it first
	Verdict string // accept, drop or reject
	// Doubtful: a rule before it may let packets return from its chain.
	Doubtful bool
}

// Sees reports whether packets of a family pass the chain.
func (g Gate) Sees(f Family) bool { return g.Family == 0 || g.Family == f }
