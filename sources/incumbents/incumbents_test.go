package incumbents

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

func of(names ...string) (in sources.Incumbents) {
	for _, name := range names {
		in.Services = append(in.Services, sources.Incumbent{Source: "file", File: "/etc/a.toml", Service: "default/" + name})
	}
	return in
}

func TestKept(t *testing.T) {
	dir := t.TempDir()
	if in, err := Read(dir); err != nil || len(in.Services) > 0 {
		t.Errorf("at the first start: %v, %v", in, err)
	}
	k := New(dir, slog.New(slog.DiscardHandler))
	k.Keep(of("a"))
	k.Keep(of("a", "b"))
	k.Close()
	if in, err := Read(dir); err != nil || !reflect.DeepEqual(in, of("a", "b")) {
		t.Errorf("%v, %v", in, err)
	}
}

// Services that come and go all day do not keep the disk busy.
func TestAtMostOneWriteInAPause(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := New(dir, slog.New(slog.DiscardHandler))
		read := func() int {
			synctest.Wait()
			in, _ := Read(dir)
			return len(in.Services)
		}
		k.Keep(of("a"))
		if n := read(); n != 1 {
			t.Errorf("%d services at once", n)
		}
		k.Keep(of("a", "b"))
		if n := read(); n != 1 {
			t.Errorf("%d services before the pause is over", n)
		}
		time.Sleep(pause)
		if n := read(); n != 2 {
			t.Errorf("%d services after it", n)
		}
		k.Close()
	})
}

func TestDamagedIsNone(t *testing.T) {
	dir := t.TempDir()
	for what, text := range map[string]string{
		"not a record": "hello\n", "cut": "from \"file\" \"/etc/a.to", "not sorted": "from \"file\" \"\"\ndefault/b\ndefault/a\n",
		"large": "from \"file\" \"\"\n" + strings.Repeat("default/a\n", maxSize/10),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if in, err := Read(dir); err == nil || len(in.Services) > 0 {
			t.Errorf("%s: %d services, %v", what, len(in.Services), err)
		} else if strings.Contains(err.Error(), "hello") {
			t.Errorf("%s: the content is quoted: %v", what, err)
		}
	}
}

// A disk that is full or read-only is a warning, once.
func TestCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		k := New(dir, slog.New(slog.NewTextHandler(&log, nil)))
		for _, name := range []string{"a", "b"} {
			k.Keep(of(name))
			time.Sleep(2 * pause)
		}
		k.Close()
	})
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, &log)
	}
}
