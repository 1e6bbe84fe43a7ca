package kernel

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

// The JSON is an interface: every field is in JSON.md, in backquotes, and keeps its
// name.
func TestPlanJSON(t *testing.T) {
	doc, err := os.ReadFile("JSON.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []reflect.Type{reflect.TypeFor[planJSON](), reflect.TypeFor[opJSON](), reflect.TypeFor[conflictJSON]()} {
		for i := range form.NumField() {
			name, _, _ := strings.Cut(form.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(string(doc), "`"+name+"`") {
				t.Errorf("field %s is not in JSON.md", name)
			}
		}
	}

	for _, row := range Rows {
		if row.Name == "" || !strings.Contains(string(doc), "`"+row.Name+"`") {
			t.Errorf("kind %q is not in JSON.md", row.Name)
		}
	}

	was := Chain{Family: IPv4, Table: "nat", Name: "KUBE-MARK-MASQ", Rules: "-j MARK --set-xmark 0x1/0x1"}
	now := was
	now.Rules = "-j MARK --set-xmark 0x4000/0x4000"
	plan := Plan{
		Ops: []Op{
			{Verb: Add, Object: Sysctl{Name: "net.ipv4.ip_forward", Value: "1"}},
			{Verb: Change, Object: now, Was: was},
		},
		Draining: 1,
	}
	got, err := json.MarshalIndent(plan, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/plan.json"
	want, err := os.ReadFile(golden)
	if err != nil || string(got)+"\n" != string(want) {
		t.Errorf("%v; is not %s but\n%s", err, golden, got)
	}
}
