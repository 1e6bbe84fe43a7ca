package report

import (
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/svcproxy/svcproxy/sources/redact"
)

// YAML is TOML for a configuration in kube-proxy's form, and for a ConfigMap that contains one. What cannot be read is
// left out with all that follows.
func YAML(text string) string {
	var b strings.Builder
	d := yaml.NewDecoder(strings.NewReader(text))
	for {
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		var out []byte
		if err == nil {
			redactNode(&n, nil)
			out, err = yaml.Marshal(&n)
		}
		if err != nil {
			b.WriteString("# the rest is left out: it cannot be read\n")
			return b.String()
		}
		if b.Len() > 0 {
			b.WriteString("---\n")
		}
		b.Write(out)
	}
}

// redactNode removes comments and secrets below a path of keys.
func redactNode(n *yaml.Node, path []string) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	switch {
	case n.Kind == yaml.AliasNode && len(path) > 0 && hides(path, ""):
		n.Kind, n.Alias, n.Value = yaml.ScalarNode, nil, redact.LeftOut
	case n.Kind == yaml.ScalarNode && len(path) > 0 && hides(path, strconv.Quote(n.Value)):
		n.SetString(redact.LeftOut)
	// a document in a ConfigMap
	case n.Kind == yaml.ScalarNode && (strings.Contains(n.Value, "\n") || strings.HasPrefix(n.Value, "{")):
		n.SetString(YAML(n.Value))
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			redactNode(n.Content[i], nil)
			redactNode(n.Content[i+1], append(path[:len(path):len(path)], n.Content[i].Value))
		}
	default:
		for _, x := range n.Content {
			redactNode(x, path)
		}
	}
}
