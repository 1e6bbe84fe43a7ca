package kernel

// ChainBuilder collects chains rule by rule. Its time grows with the text alone: a chain
// may have thousands of rules, and there may be thousands of chains. The zero value is
// ready.
type ChainBuilder struct {
	chains []Chain
	rules  [][]byte      // of chains, by index
	index  map[Chain]int // by chain without its rules
}

// Add adds a chain without rules, unless it is there.
func (b *ChainBuilder) Add(f Family, table, name string) { b.find(f, table, name) }

// Rule adds a rule to a chain, and the chain if it is not there.
func (b *ChainBuilder) Rule(f Family, table, name, rule string) {
	i := b.find(f, table, name)
	if len(b.rules[i]) > 0 {
		b.rules[i] = append(b.rules[i], '\n')
	}
	b.rules[i] = append(b.rules[i], rule...)
}

func (b *ChainBuilder) find(f Family, table, name string) int {
	c := Chain{Family: f, Table: table, Name: name}
	i, ok := b.index[c]
	if !ok {
		if b.index == nil {
			b.index = make(map[Chain]int)
		}
		i = len(b.chains)
		b.index[c] = i
		b.chains = append(b.chains, c)
		b.rules = append(b.rules, nil)
	}
	return i
}

// Chains returns the chains in the order in which they were added.
func (b *ChainBuilder) Chains() []Chain {
	for i := range b.chains {
		b.chains[i].Rules = string(b.rules[i])
	}
	return b.chains
}
