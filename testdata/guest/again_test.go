package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A test that fails once is run again alone, and more than two are not.
func TestAgain(t *testing.T) {
	for _, c := range []struct {
		name, script, runs string
		fails              bool
	}{
		{"all pass", `exit 0`, "1", false},
		{"fails once", `test $n = 2 || { echo "--- FAIL: TestA (1s)"; exit 1; }`, "2", false},
		{"fails twice", `echo "--- FAIL: TestA (1s)"; exit 1`, "2", true},
		{"three fail", `printf -- "--- FAIL: TestA\n--- FAIL: TestB\n--- FAIL: TestC\n"; exit 1`, "1", true},
		{"a panic", `printf -- "--- FAIL: TestA\npanic: no\n"; exit 1`, "1", true},
		{"no test failed", `echo "build failed"; exit 1`, "1", true},
		{"which test", `test $n = 1 && { echo "--- FAIL: TestA (1s)"; exit 1; }; test "$1" = "-run=^(TestA)$" && test "$2" = ./p`, "2", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			count := filepath.Join(t.TempDir(), "count")
			script := `echo >>"` + count + `"; n=$(wc -l <"` + count + `"); ` + c.script
			var out bytes.Buffer
			err := again(t.Context(), &out, []string{"sh", "-c", script, "sh", "./p"})
			if (err != nil) != c.fails {
				t.Errorf("error %v, want one: %v\n%s", err, c.fails, &out)
			}
			if lines, _ := os.ReadFile(count); len(lines) != int(c.runs[0]-'0') {
				t.Errorf("run %d times, want %s", len(lines), c.runs)
			}
		})
	}
}
