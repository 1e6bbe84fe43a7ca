package control_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/sources/file"
)

// TestTables: a table goes to the store and back, with the exit codes of a command. What is too large is refused.
func TestTables(t *testing.T) {
	var told []string
	c, _ := serving(t, &control.Server{Tables: &file.Store{Dir: t.TempDir()}, MembersSetTables: func() bool { return false },
		TableChanged: func(_ context.Context, c control.TableChange) *control.Reloaded {
			told = append(told, c.Text)
			return nil
		}})
	text := []byte("[services.web]\nvips = [\"198.51.100.80\"]\nport = 80\nbackends = [\"10.2.1.10:8080\"]\n")
	set, err := c.SetTable(t.Context(), "web", text, file.Expect{Absent: true}, false)
	if err != nil || set.Table.Services != 1 || set.Reloaded != nil {
		t.Fatal(set, err)
	}
	if got, digest, err := c.TableText(t.Context(), "web"); err != nil || !bytes.Equal(got, text) || digest != set.Table.Digest {
		t.Errorf("%q, %s, %v", got, digest, err)
	}
	if again, err := c.SetTable(t.Context(), "web", text, file.Expect{}, false); err != nil || !again.Table.Unchanged {
		t.Error(again, err)
	}
	for _, bad := range []struct {
		name, text string
		want       file.Expect
		code       int
	}{
		{"web", "colour = 1", file.Expect{}, cli.Config},
		{"web", string(text), file.Expect{Absent: true}, cli.Failed},
		{"web", string(text), file.Expect{Digest: "other"}, cli.Failed},
		{"a b", string(text), file.Expect{}, cli.Usage},
		{"web", strings.Repeat("#", file.MaxSize+1), file.Expect{}, cli.Failed},
	} {
		if _, err := c.SetTable(t.Context(), bad.name, []byte(bad.text), bad.want, false); code(err) != bad.code {
			t.Errorf("%.40s %.40q: exit code %d, want %d: %v", bad.name, bad.text, code(err), bad.code, err)
		}
	}
	if _, err := c.RemoveTable(t.Context(), "web", file.Expect{Digest: set.Table.Digest}, false); err != nil {
		t.Error(err)
	}
	if all, err := c.Tables(t.Context()); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
	if want := "table web set by root: 1 service, table web removed by root"; strings.Join(told, ", ") != want {
		t.Errorf("told %q, want %s", told, want)
	}
}
