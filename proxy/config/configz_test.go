package config

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestConfigzIsKubeProxys: testdata/configz/*.json are the answers of kube-proxy 1.34.4 to the configuration in the YAML
// file of the same name. Every field here has the same name, place and value, and the missing ones are known.
func TestConfigzIsKubeProxys(t *testing.T) {
	missing := []string{"Logging.options", "NFTables", "Windows", "Winkernel"}
	for _, name := range []string{"sample", "least"} {
		data, err := os.ReadFile("testdata/configz/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := Decode(name+".yaml", data, nil)
		if err != nil {
			t.Fatal(err)
		}
		golden, err := os.ReadFile("testdata/configz/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		want, got := tree(t, golden), tree(t, marshal(t, c.Configz()))
		if !reflect.DeepEqual(got["svcproxy"], tree(t, marshal(t, c.Tree()))) {
			t.Errorf("%s: svcproxy: %v", name, got["svcproxy"])
		}
		if diff := differences("", want["kubeproxy.config.k8s.io"], got["kubeproxy.config.k8s.io"]); !slices.Equal(diff, missing) {
			t.Errorf("%s: differs in\n%s\nwant it to in\n%s", name, strings.Join(diff, "\n"), strings.Join(missing, "\n"))
		}
	}
}

// TestConfigzWithoutListeners: values that kube-proxy cannot have are the zero of their field.
func TestConfigzWithoutListeners(t *testing.T) {
	c, _, err := Decode("svcproxy.toml", []byte("healthzBindAddress = \"\"\nnodePortAddresses = [\"primary\"]\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := tree(t, marshal(t, c.Configz()))["kubeproxy.config.k8s.io"].(map[string]any)
	if got["HealthzBindAddress"] != "" || got["Mode"] != "ipvs" || !reflect.DeepEqual(got["NodePortAddresses"], []any{"primary"}) {
		t.Error(got)
	}
}

func marshal(t *testing.T, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func tree(t *testing.T, data []byte) map[string]any {
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// differences are the paths at which two trees differ, sorted. A part that only one has is its root.
func differences(path string, a, b any) (found []string) {
	in, ok := a.(map[string]any)
	other, both := b.(map[string]any)
	if !ok || !both {
		if !reflect.DeepEqual(a, b) {
			found = append(found, strings.TrimPrefix(path, "."))
		}
		return found
	}
	for key := range in {
		found = append(found, differences(path+"."+key, in[key], other[key])...)
	}
	for key := range other {
		if _, there := in[key]; !there {
			found = append(found, strings.TrimPrefix(path+"."+key, "."))
		}
	}
	slices.Sort(found)
	return found
}
