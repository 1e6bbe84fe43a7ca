package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/svcproxy/svcproxy/sources"
)

// Objects are the objects of manifests that are used here, in the order of the text.
type Objects struct {
	Services []Service
	Slices   []EndpointSlice
	Nodes    []NodeObject
	Ignored  []sources.Problem // the objects of other kinds
	Proxy    string            // who reads them: see Service.Ours
}

// Empty reports whether there is no object that is used here.
func (o Objects) Empty() bool { return len(o.Services)+len(o.Slices)+len(o.Nodes) == 0 }

// Decode reads YAML or JSON documents in kubectl's form, Lists too. It ignores objects of other kinds, which
// Ignored names, and unused fields. It reports an object that cannot be read and leaves it out. name is the
// file's name in messages.
func Decode(name string, data []byte) (Objects, []sources.Problem) {
	d := &decoder{name: name}
	if atMost(data) > 4*maxValues {
		d.refuse(0, "more than %d keys and values", maxValues)
		return d.objects, d.problems
	}
	room := weigher{left: maxValues, of: map[*yaml.Node]int{}}
	docs := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		switch err := docs.Decode(&doc); {
		case errors.Is(err, io.EOF):
			sources.SortProblems(d.problems)
			return d.objects, d.problems
		case err != nil:
			// The decoder cannot find the next document after an error.
			d.fault(0, err)
			sources.SortProblems(d.problems)
			return d.objects, d.problems
		}
		if !room.takes(&doc) {
			d.refuse(doc.Line, "more than %d keys and values, each alias written out", maxValues)
			return Objects{}, d.problems
		}
		if len(doc.Content) > 0 {
			d.object(doc.Content[0], head{})
		}
	}
}

type decoder struct {
	name     string
	objects  Objects
	problems []sources.Problem
}

func (d *decoder) refuse(line int, format string, args ...any) {
	d.problems = append(d.problems, sources.Problem{Origin: d.origin(line), Message: fmt.Sprintf(format, args...)})
}

func (d *decoder) origin(line int) sources.Origin {
	return sources.Origin{Source: sources.Manifest, File: d.name, Line: line}
}

// fault reports an error of the YAML library, which has the line in its text.
func (d *decoder) fault(line int, err error) {
	var typed *yaml.TypeError
	texts := []string{err.Error()}
	if errors.As(err, &typed) {
		texts = typed.Errors
	}
	for _, text := range texts {
		text = strings.TrimPrefix(text, "yaml: ")
		at := line
		if n, err := fmt.Sscanf(text, "line %d:", &at); n == 1 && err == nil {
			_, text, _ = strings.Cut(text, ": ")
		}
		d.refuse(at, "%s", plain(text))
	}
}

// plain rewrites an error about a Go type, such as "cannot unmarshal !!str `x` into int32", for an operator.
func plain(text string) string {
	given, into, ok := strings.Cut(strings.TrimPrefix(text, "cannot unmarshal "), " into ")
	if _, value, quoted := strings.Cut(given, " "); quoted {
		given = value
	}
	switch {
	case !ok:
		return text
	case strings.HasPrefix(into, "["):
		return "a list belongs here, not " + given
	case into == "int32" || into == "manifest.TargetPort":
		return "a number belongs here, not " + given
	case into == "bool":
		return "true or false belongs here, not " + given
	case into == "string":
		return "a text belongs here, not " + given
	}
	return "fields belong here, not " + given
}

// head is the type of an object.
type head struct {
	APIVersion string      `yaml:"apiVersion"`
	Kind       string      `yaml:"kind"`
	Items      []yaml.Node `yaml:"items"`
}

// object reads one object, or the objects of a List, which may have no type of their own.
func (d *decoder) object(n *yaml.Node, is head) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // a document of comments
	}
	if err := n.Decode(&is); err != nil {
		d.fault(n.Line, err)
		return
	}
	switch is.APIVersion + " " + is.Kind {
	case "v1 Service":
		read(d, n, &d.objects.Services, func(s *Service) *Metadata { return &s.Metadata })
	case "v1 Node":
		read(d, n, &d.objects.Nodes, func(o *NodeObject) *Metadata { return &o.Metadata })
	case "discovery.k8s.io/v1 EndpointSlice":
		read(d, n, &d.objects.Slices, func(e *EndpointSlice) *Metadata { return &e.Metadata })
	case "v1 List", "v1 ServiceList", "v1 NodeList", "discovery.k8s.io/v1 EndpointSliceList":
		of := head{APIVersion: is.APIVersion, Kind: strings.TrimSuffix(is.Kind, "List")}
		for i := range is.Items {
			d.object(&is.Items[i], of)
		}
	case " ":
		d.refuse(n.Line, "no apiVersion and kind: not a Kubernetes object")
	default:
		if is.Kind == "EndpointSlice" {
			d.refuse(n.Line, "EndpointSlice of apiVersion %q: must be discovery.k8s.io/v1", is.APIVersion)
			return
		}
		d.objects.Ignored = append(d.objects.Ignored, sources.Problem{Origin: d.origin(n.Line), Message: fmt.Sprintf(
			"kind %q of apiVersion %q is ignored: only Service and Node of v1, and EndpointSlice of discovery.k8s.io/v1, are "+
				"read", is.Kind, is.APIVersion)})
	}
}

// read decodes an object and appends it to those of its kind.
func read[T any](d *decoder, n *yaml.Node, to *[]T, metadata func(*T) *Metadata) {
	var object T
	if err := n.Decode(&object); err != nil {
		d.fault(n.Line, err)
		return
	}
	m := metadata(&object)
	m.Origin = d.origin(n.Line)
	m.Namespace = cmp.Or(m.Namespace, sources.DefaultNamespace)
	*to = append(*to, object)
}

// UnmarshalYAML accepts a number or the name of a port.
func (p *TargetPort) UnmarshalYAML(n *yaml.Node) error {
	if n.Tag == "!!str" {
		return nil
	}
	return n.Decode((*int32)(p))
}
