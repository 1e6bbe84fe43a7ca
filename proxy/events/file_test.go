package events

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// run restores a Ring from a file, adds events to it and keeps them.
func run(t *testing.T, path string, add ...Event) *Ring {
	t.Helper()
	r := new(Ring)
	f := File{Path: path, Ring: r}
	if err := f.Restore(); err != nil {
		t.Log(err)
	}
	r.Add(add...)
	ended, end := context.WithCancel(t.Context())
	end()
	f.Run(ended)
	return r
}

func texts(r *Ring) string {
	var b strings.Builder
	list, _, _ := r.After(0)
	for _, e := range list {
		fmt.Fprintf(&b, "%d:%s ", e.Seq, e.Text)
	}
	return b.String()
}

// Events and their numbers go on over a restart, and so does a reader.
func TestFileKeepsEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", FileName)
	first := run(t, path, Event{Kind: Started, Text: "a"}, Event{Kind: Table, Text: "b", Changes: []string{"web: x"}})
	second := run(t, path, Event{Kind: Started, Text: "c"})
	third := run(t, path)
	if got, want := texts(third), "1:a 2:b 3:c "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if first.Series() == "" || first.Series() != second.Series() || second.Series() != third.Series() {
		t.Error("series:", first.Series(), second.Series(), third.Series())
	}
	if list, lost, _ := third.After(2); len(list) != 1 || lost != 0 || list[0].Text != "c" {
		t.Errorf("after 2: %v, lost %d", list, lost)
	}
	// A line that was cut is left out.
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data[:len(data)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := texts(run(t, path)), "1:a 2:b "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The file and the Ring stay within their bounds, however much happens.
func TestFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	text := strings.Repeat("x", maxText)
	for range 3 {
		var list []Event
		for range Size - 100 {
			list = append(list, Event{Kind: Table, Text: text})
		}
		r := run(t, path, list...)
		all, _, _ := r.After(0)
		if last := all[len(all)-1]; len(all) > Size || last.Seq != all[0].Seq+uint64(len(all)-1) {
			t.Errorf("%d events from %d to %d", len(all), all[0].Seq, last.Seq)
		}
		if info, err := os.Stat(path); err != nil || info.Size() > maxFile {
			t.Fatal(info.Size(), err)
		}
	}
	if r := run(t, path); r.Newest() != 3*(Size-100) {
		t.Errorf("the newest is %d", r.Newest())
	}
}

// What is not a record of events is replaced.
func TestFileIsMended(t *testing.T) {
	head := `{"version":1,"series":"a"}` + "\n"
	for _, c := range []struct{ what, content, want string }{
		{"garbage", "\x00\xff{[", "1:a "},
		{"another version", `{"version":7,"series":"a"}` + "\n", "1:a "},
		{"a large number", head + `{"seq":18446744073709551615,"kind":"table","text":"old"}` + "\n", "1:old 2:a "},
		{"no number", head + `{"kind":"table","text":"old"}` + "\n", "1:old 2:a "},
		{"an unknown kind", head + `{"seq":1,"kind":"\u001b[2J","text":"old"}` + "\n", "1:a "},
	} {
		path := filepath.Join(t.TempDir(), FileName)
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, path, Event{Kind: Started, Text: "a"})
		if got := texts(run(t, path)); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
