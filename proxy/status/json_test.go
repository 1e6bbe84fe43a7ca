package status

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/events"
)

// JSON.md names every field of a status and of an event, in backquotes.
func TestEveryFieldIsDocumented(t *testing.T) {
	text, err := os.ReadFile("JSON.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range fieldNames(reflect.TypeFor[events.Event](), fieldNames(reflect.TypeFor[Status](), nil)) {
		if !strings.Contains(string(text), "`"+name+"`") && !strings.Contains(string(text), "."+name+"`") {
			t.Errorf("field %s is not in JSON.md", name)
		}
	}
}

// fieldNames adds the JSON names of a type's fields, and of the fields' own.
func fieldNames(typ reflect.Type, names []string) []string {
	switch typ.Kind() {
	case reflect.Slice, reflect.Pointer:
		return fieldNames(typ.Elem(), names)
	case reflect.Struct:
	default:
		return names
	}
	if !strings.HasPrefix(typ.PkgPath(), "github.com/svcproxy/") {
		return names // netip and time types are written as text
	}
	for i := range typ.NumField() {
		f := typ.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
		if f.IsExported() {
			names = fieldNames(f.Type, names)
		}
	}
	return names
}
