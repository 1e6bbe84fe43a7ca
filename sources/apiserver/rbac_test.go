//go:build !noapiserver

package apiserver

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestRBAC: the packaged manifest allows the requests of this source, and no others.
func TestRBAC(t *testing.T) {
	f, err := os.Open("../../packaging/kubernetes/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var allowed []string
	for docs := yaml.NewDecoder(f); ; {
		var role struct {
			Rules []struct {
				Groups    []string `yaml:"apiGroups"`
				Resources []string
				Verbs     []string
			}
		}
		if docs.Decode(&role) != nil {
			break
		}
		for _, r := range role.Rules {
			for _, resource := range r.Resources {
				allowed = append(allowed, strings.Join(r.Groups, ",")+"/"+resource+" "+strings.Join(r.Verbs, ","))
			}
		}
	}
	var asked []string
	for _, k := range kinds(newCatalog(""), "n1") {
		group := ""
		if k.discovery {
			group = "discovery.k8s.io"
		}
		asked = append(asked, group+"/"+k.resource+" get,list,watch")
	}
	slices.Sort(asked)
	slices.Sort(allowed)
	if !slices.Equal(asked, allowed) {
		t.Errorf("allowed %q, asked for %q", allowed, asked)
	}
}
