package convert

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/svcproxy/svcproxy/sources"
)

// otherKinds notes the objects that are neither Services nor EndpointSlices.
func otherKinds(f File) []Note {
	var notes []Note
	docs := yaml.NewDecoder(bytes.NewReader(f.Data))
	for {
		var doc yaml.Node
		if docs.Decode(&doc) != nil { // the end, as manifest.Decode has read all
			return notes
		}
		if len(doc.Content) > 0 {
			notes = append(notes, otherKind(f.Name, doc.Content[0], object{})...)
		}
	}
}

// object is what of an object says what it is, and what the types of package manifest lack.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Spec struct {
		LoadBalancerIP    string `yaml:"loadBalancerIP"`
		LoadBalancerClass string `yaml:"loadBalancerClass"`
		ExternalName      string `yaml:"externalName"`
	} `yaml:"spec"`
	Items []yaml.Node `yaml:"items"`
}

// otherKind is about an object, or the objects of a list, whose items may have no type of their own.
func otherKind(name string, n *yaml.Node, o object) []Note {
	if n.Kind == yaml.ScalarNode || n.Decode(&o) != nil {
		return nil
	}
	var notes []Note
	if of, list := strings.CutSuffix(o.Kind, "List"); list {
		for i := range o.Items {
			item := object{APIVersion: o.APIVersion, Kind: of}
			notes = append(notes, otherKind(name, &o.Items[i], item)...)
		}
		return notes
	}
	note := func(format string, args ...any) {
		at := sources.Origin{Source: string(Kubernetes), File: name, Line: n.Line}
		notes = append(notes, Note{Origin: at, Message: strings.TrimSpace(o.Kind+" "+o.Metadata.Name) + ": " +
			message(format, args...)})
	}
	switch o.APIVersion + " " + o.Kind {
	case "discovery.k8s.io/v1 EndpointSlice":
	case "v1 Service":
		if o.Spec.LoadBalancerIP != "" {
			note("loadBalancerIP %s: only addresses in the status count", o.Spec.LoadBalancerIP)
		}
		if o.Spec.LoadBalancerClass != "" {
			note("loadBalancerClass %s: the addresses in the status are served, whatever the class", o.Spec.LoadBalancerClass)
		}
		if o.Spec.ExternalName != "" {
			note("externalName %s: svcproxy answers no questions for names", o.Spec.ExternalName)
		}
	case "v1 Endpoints":
		note("EndpointSlices are read instead")
	case o.APIVersion + " ":
		note("an object without a kind")
	default:
		note("apiVersion %s: only v1 Service and discovery.k8s.io/v1 EndpointSlice are imported", o.APIVersion)
	}
	return notes
}
