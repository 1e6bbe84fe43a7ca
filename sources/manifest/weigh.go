package manifest

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// maxValues is how many keys and values the documents of a file may have, when each alias is written out:
// 60,000 services. The library takes 300 bytes for each.
const maxValues = 1_000_000

// atMost is an upper bound of the keys and values in a text, without aliases.
func atMost(data []byte) int {
	n := 1
	for _, mark := range []string{"\n", ",", ":", "[", "{", "- "} {
		n += bytes.Count(data, []byte(mark))
	}
	return n
}

// weigher counts the keys and values of documents as if each alias were a copy: ten lines of aliases to aliases are
// more than any memory holds.
type weigher struct {
	left int                // how many more there may be
	of   map[*yaml.Node]int // by anchor; while it is weighed maxValues+1, since it must not contain itself
}

// weigh returns the weight of a node, maxValues+1 if it is more than that.
func (w *weigher) weigh(n *yaml.Node) int {
	if n.Kind == yaml.AliasNode {
		return w.anchor(n.Alias)
	}
	if n.Anchor != "" {
		return w.anchor(n)
	}
	return w.content(n)
}

func (w *weigher) anchor(n *yaml.Node) int {
	if weight, known := w.of[n]; known {
		return weight
	}
	w.of[n] = maxValues + 1
	w.of[n] = w.content(n)
	return w.of[n]
}

func (w *weigher) content(n *yaml.Node) int {
	weight := 1
	for _, c := range n.Content {
		if weight += w.weigh(c); weight > maxValues {
			return maxValues + 1
		}
	}
	return weight
}

// takes reports whether there is room for a document.
func (w *weigher) takes(doc *yaml.Node) bool {
	w.left -= w.weigh(doc)
	return w.left >= 0
}
