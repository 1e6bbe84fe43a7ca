package status

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEveryFieldIsDocumented in JSON.md, by its name in backquotes.
func TestEveryFieldIsDocumented(t *testing.T) {
	text, err := os.ReadFile("JSON.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range fieldNames(reflect.TypeFor[Status](), nil) {
		if !strings.Contains(string(text), "`"+name+"`") && !strings.Contains(string(text), "."+name+"`") {
			t.Errorf("field %s is not in JSON.md", name)
		}
	}
}

// fieldNames are the names in JSON of a type's fields, and of theirs.
func fieldNames(typ reflect.Type, names []string) []string {
	switch typ.Kind() {
	case reflect.Slice, reflect.Pointer:
		return fieldNames(typ.Elem(), names)
	case reflect.Struct:
	default:
		return names
	}
	if typ.PkgPath() != reflect.TypeFor[Status]().PkgPath() || typ == reflect.TypeFor[time.Time]() {
		return names // it is written as text
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
