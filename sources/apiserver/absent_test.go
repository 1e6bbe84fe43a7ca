package apiserver

import (
	"os/exec"
	"strings"
	"testing"
)

// TestLeftOut: the build tag leaves out all Kubernetes libraries.
func TestLeftOut(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-tags", "noapiserver", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(path, "k8s.io/") {
			t.Errorf("depends on %s", path)
		}
	}
	out, err = exec.Command("go", "build", "-tags", "noapiserver", ".").CombinedOutput()
	if err != nil {
		t.Errorf("does not build: %v\n%s", err, out)
	}
}
