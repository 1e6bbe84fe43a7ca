package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/svcproxy/svcproxy/proxy/mode"
)

// This file finds kube-proxy's own configuration in a YAML file. yaml_fields.go reads
// its fields.

const (
	upstreamVersion = "kubeproxy.config.k8s.io/v1alpha1"
	upstreamKind    = "KubeProxyConfiguration"
	upstreamKey     = "config.conf" // of kubeadm's ConfigMap
)

// maxYAML is the size limit of an API server for an object, in bytes. It bounds the
// cost of a hostile file.
const maxYAML = 1 << 20

// isYAML reports whether a file is a KubeProxyConfiguration and not svcproxy.toml. It
// looks at the extension of its name. kube-proxy's file is often called config.conf,
// so it also looks at the first line that is not blank or a comment.
func isYAML(name string, data []byte) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml":
		return true
	case ".toml":
		return false
	}
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
		if len(line) > 0 && line[0] != '#' {
			return matches(yamlLine, string(line))
		}
	}
	return false
}

// yamlLine matches a first line that cannot be TOML: a document marker, JSON, or a key
// with a colon.
const yamlLine = `^(---|%YAML|\{|[A-Za-z][\w.-]*[ \t]*:([ \t]|$)|"[\w.-]+"[ \t]*:([ \t]|$)|'[\w.-]+'[ \t]*:([ \t]|$))`

// yamlReader reads one text of YAML documents.
type yamlReader struct {
	*decoder
	first   int  // number of lines of the file before the text
	oneLine bool // the text is a string in one line of the file, first
	last    int  // the last line of the file
	meant   map[string]bool
	unknown int

	nftables *yaml.Node // the table of this name, if that is the mode
}

// yaml reads the KubeProxyConfiguration of a file.
func (d *decoder) yaml(data []byte) {
	r := &yamlReader{decoder: d, meant: make(map[string]bool),
		last: 1 + bytes.Count(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))}
	switch {
	case len(data) > maxYAML:
		d.refuse(1, "has %d bytes: more than %d are no configuration", len(data), maxYAML)
		return
	case !utf8.Valid(data):
		whole := strings.ToValidUTF8(string(data), "\x00") // YAML cannot have a zero byte
		d.refuse(lineOf(whole, strings.IndexByte(whole, 0)), "not UTF-8: YAML files must be")
		return
	}
	docs, err := documents(string(data))
	if err != nil {
		r.syntax(err, string(data))
		return
	}
	r.choose(docs, string(data))
}

// documents are the YAML documents of a text. Aliases are not resolved, so that an
// alias costs no more than its text.
func documents(text string) (docs []*yaml.Node, err error) {
	// The library panics at a fault of its own. One bad document must not end the
	// process.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the YAML library gave up: %v", r)
		}
	}()
	for dec := yaml.NewDecoder(strings.NewReader(text)); ; {
		var n yaml.Node
		if err := dec.Decode(&n); errors.Is(err, io.EOF) {
			return docs, nil
		} else if err != nil {
			return nil, err
		}
		if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
			docs = append(docs, n.Content[0])
		}
	}
}

const (
	syntaxLine = `^(?:yaml: )?(?:line (\d+): )?`
	// The library counts lines from 0 in errors of its parser, and from 1 in those of
	// its scanner.
	parserError = `^(did not find expected (<|node content|key|'-' indicator|',' or)|found incompatible YAML|found ` +
		`duplicate %|found undefined tag)`
	noAnchor = `^unknown anchor '(.*)' referenced$`
)

// syntax refuses a text that the library could not read.
func (r *yamlReader) syntax(err error, text string) {
	m := regexp.MustCompile(syntaxLine).FindStringSubmatch(err.Error())
	message := strings.Join(strings.Fields(err.Error()[len(m[0]):]), " ")
	line, _ := strconv.Atoi(m[1])
	switch anchor := regexp.MustCompile(noAnchor).FindStringSubmatch(message); {
	case m[1] != "" && matches(parserError, message):
		line++
	case anchor != nil:
		line = lineOf(text, strings.Index(text, "*"+anchor[1]))
	case message == "control characters are not allowed":
		line = lineOf(text, strings.IndexFunc(text, func(r rune) bool {
			return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n\u0085", r)
		}))
	}
	last := 1 + strings.Count(strings.TrimSuffix(text, "\n"), "\n")
	r.refuse(r.line(min(max(line, 1), last)), "not YAML: %s", message)
}

// lineOf is the line of a byte of a text.
func lineOf(text string, at int) int { return 1 + strings.Count(text[:max(at, 0)], "\n") }

// line is the file's line for a line of the text. YAML also ends lines at a lone CR or
// at U+2028, where editors do not. Such lines count up to the file's last.
func (r *yamlReader) line(n int) int {
	if r.oneLine {
		n = 0
	}
	return min(r.first+n, r.last)
}

// choose reads the KubeProxyConfiguration among the documents, or the one in a
// ConfigMap among them.
func (r *yamlReader) choose(docs []*yaml.Node, text string) {
	var found []*yaml.Node
	for _, n := range docs {
		if kind := wordAt(n, "kind"); kind == upstreamKind || kind == "ConfigMap" && r.first == 0 {
			found = append(found, n)
		}
	}
	switch {
	case len(found) > 1:
		r.refuse(r.line(found[1].Line), "a second %s, the first is at line %d: which one is meant?", wordAt(found[1], "kind"),
			r.line(found[0].Line))
	case len(found) == 0:
		r.nothing(docs)
	case wordAt(found[0], "kind") == "ConfigMap":
		r.configMap(found[0], text)
	default:
		r.object(found[0])
	}
}

// nothing refuses documents without a configuration, and says what they are.
func (r *yamlReader) nothing(docs []*yaml.Node) {
	for _, n := range docs {
		if kind := wordAt(n, "kind"); kind != "" {
			r.refuse(r.line(n.Line), "kind %q is not %s", kind, upstreamKind)
			return
		}
	}
	line := 1
	if len(docs) > 0 {
		line = docs[0].Line
	}
	r.refuse(r.line(line), "no %s: it begins with apiVersion: %s and kind: %s", upstreamKind, upstreamVersion,
		upstreamKind)
}

// object reads a KubeProxyConfiguration.
func (r *yamlReader) object(n *yaml.Node) {
	if v := wordAt(n, "apiVersion"); v != upstreamVersion {
		line := n.Line
		if at := nodeAt(n, "apiVersion"); at != nil {
			line = at.Line
		}
		r.refuse(r.line(line), "apiVersion is %q, must be %q", v, upstreamVersion)
		return
	}
	r.meaning(n)
	if wordAt(n, "mode") == mode.NFTables {
		if r.nftables = nodeAt(n, mode.NFTables); r.nftables == nil {
			r.nftables = new(yaml.Node)
		}
	}
	r.mapping("", n)
	r.listeners()
	// Their defaults have another meaning here. A file that svcproxy wrote means ours.
	if nodeAt(n, meantKey) == nil {
		r.upstream.file = true
		r.nodePorts()
		if at := nodeAt(n, "mode"); at != nil && at.Value == "" {
			r.upstream.mode = r.line(at.Line)
		}
		r.upstream.localhost = r.unsetLine(n, "iptables", "localhostNodePorts")
	}
}

// unsetLine is the line of the innermost of some keys within one another, or of the object; 0 if the last key
// has a value.
func (r *yamlReader) unsetLine(n *yaml.Node, keys ...string) int {
	line := n.Line
	for _, key := range keys {
		if n = nodeAt(n, key); n == nil {
			return r.line(line)
		}
		line = n.Line
	}
	if !isNull(n) {
		return 0
	}
	return r.line(line)
}

// configMap reads the configuration in the text of a ConfigMap.
func (r *yamlReader) configMap(n *yaml.Node, text string) {
	for range r.pairs("", n) { // reports duplicate keys
	}
	data := nodeAt(n, "data")
	if data == nil || data.Kind != yaml.MappingNode || len(data.Content) == 0 {
		r.refuse(r.line(n.Line), "the ConfigMap has no data")
		return
	}
	held := make(map[string]*yaml.Node)
	for key, value := range r.pairs("data", data) {
		held[key.Value] = target(value)
	}
	key := upstreamKey
	if len(held) == 1 {
		for key = range held {
		}
	}
	at := held[key]
	switch {
	case at == nil:
		r.refuse(r.line(data.Line), "the ConfigMap has no %s, but %s", upstreamKey,
			spelt(strings.Join(slices.Sorted(maps.Keys(held)), ", ")))
		return
	case at.Kind != yaml.ScalarNode:
		r.refuse(r.line(at.Line), "%s in the ConfigMap must be a text: put a | behind its colon", spelt(key))
		return
	}
	inner := *r
	inner.first, inner.oneLine = at.Line, !below(text, at)
	docs, err := documents(at.Value)
	if err != nil {
		inner.syntax(err, at.Value)
		return
	}
	inner.choose(docs, at.Value)
}

// below says whether each line of a string is a line of the file below the string's
// key, as in a block that begins with |.
func below(text string, n *yaml.Node) bool {
	if n.Style&yaml.LiteralStyle == 0 {
		return false
	}
	file := strings.Split(text, "\n")
	for i, line := range strings.Split(strings.TrimRight(n.Value, "\n"), "\n") {
		if n.Line+i >= len(file) || !strings.HasSuffix(strings.TrimSuffix(file[n.Line+i], "\r"), line) {
			return false
		}
	}
	return true
}

// target is the node of an alias, or the node itself.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// nodeAt is the value of a mapping's key; nil if there is none.
func nodeAt(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return target(n.Content[i+1])
		}
	}
	return nil
}

// wordAt is the text of a mapping's key; "" if there is none.
func wordAt(n *yaml.Node, key string) string {
	if v := nodeAt(n, key); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}
