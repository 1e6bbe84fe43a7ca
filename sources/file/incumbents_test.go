package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/sources"
)

func incumbentsOf(names ...string) (in sources.Incumbents) {
	for _, name := range names {
		in.Services = append(in.Services, sources.Incumbent{Source: "file", File: "/etc/a.toml", Service: "default/" + name})
	}
	return in
}

func TestIncumbents(t *testing.T) {
	dir := t.TempDir()
	if in, err := ReadIncumbents(dir); err != nil || len(in.Services) > 0 {
		t.Errorf("at the first start: %v, %v", in, err)
	}
	r := NewIncumbentsRecorder(dir, nil)
	r.Record(incumbentsOf("a"))
	r.Record(incumbentsOf("a", "b"))
	r.Close()
	if in, err := ReadIncumbents(dir); err != nil || !reflect.DeepEqual(in, incumbentsOf("a", "b")) {
		t.Errorf("%v, %v", in, err)
	}
}

// Many changes of services cause one write per recordPause.
func TestAtMostOneWriteInAPause(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := NewIncumbentsRecorder(dir, nil)
		read := func() int {
			synctest.Wait()
			in, _ := ReadIncumbents(dir)
			return len(in.Services)
		}
		r.Record(incumbentsOf("a"))
		if n := read(); n != 1 {
			t.Errorf("%d services at once", n)
		}
		r.Record(incumbentsOf("a", "b"))
		if n := read(); n != 1 {
			t.Errorf("%d services before the recordPause is over", n)
		}
		time.Sleep(recordPause)
		if n := read(); n != 2 {
			t.Errorf("%d services after it", n)
		}
		r.Close()
	})
}

func TestDamagedIncumbents(t *testing.T) {
	dir := t.TempDir()
	for what, text := range map[string]string{
		"not a record": "hello\n", "cut": "from \"file\" \"/etc/a.to", "not sorted": "from \"file\" \"\"\ndefault/b\ndefault/a\n",
		"large": "from \"file\" \"\"\n" + strings.Repeat("default/a\n", maxIncumbents/10),
	} {
		if err := os.WriteFile(filepath.Join(dir, incumbentsFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if in, err := ReadIncumbents(dir); err == nil || len(in.Services) > 0 {
			t.Errorf("%s: %d services, %v", what, len(in.Services), err)
		} else if strings.Contains(err.Error(), "hello") {
			t.Errorf("%s: the content is quoted: %v", what, err)
		}
	}
}

// When a disk that was full or read-only is well, the record is written without a new one.
func TestIncumbentsCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	breaks := func() {
		if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	written := func(what string, names ...string) {
		t.Helper()
		if in, err := ReadIncumbents(dir); err != nil || !reflect.DeepEqual(in, incumbentsOf(names...)) {
			t.Errorf("%s: %v, %v", what, in, err)
		}
	}
	breaks()
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		keeper := &statefile.Keeper{Said: func(_ string, err error) { failing.Store(err != nil) }}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go keeper.Run(ctx)
		r := NewIncumbentsRecorder(dir, keeper)
		for _, name := range []string{"a", "b"} {
			r.Record(incumbentsOf(name))
			time.Sleep(2 * recordPause)
		}
		if !failing.Load() {
			t.Error("that the record is not written is not said")
		}
		os.Remove(dir)
		time.Sleep(recordPause + time.Second)
		written("the disk is well", "b")
		if failing.Load() {
			t.Error("that it is written is not said")
		}

		breaks()
		r.Record(incumbentsOf("c"))
		synctest.Wait()
		r.Record(incumbentsOf("a", "c"))
		time.Sleep(2 * recordPause)
		os.Remove(dir)
		r.Close()
		written("closed", "a", "c")

		// A failure does not keep Close.
		breaks()
		r = NewIncumbentsRecorder(dir, keeper)
		r.Record(incumbentsOf("d"))
		time.Sleep(recordPause)
		r.Close()
	})
}
