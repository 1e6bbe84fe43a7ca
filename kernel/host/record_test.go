package host

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

func virtuals(n int, scheduler string) []kernel.Virtual {
	var v []kernel.Virtual
	for i := range n {
		v = append(v, kernel.Virtual{
			Key:       kernel.VirtualKey{Addr: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), Port: 80, Proto: kernel.TCP},
			Scheduler: scheduler, Netmask: 32,
		})
	}
	return v
}

func remember(t *testing.T, r *record, now kernel.Record) {
	t.Helper()
	r.keep(now)
	r.close()
	if err := r.warning(); err != nil {
		t.Fatal(err)
	}
}

func TestRecordIsAppendedTo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, recordFile)
	size := func() int {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return len(text)
	}
	all := virtuals(2000, "rr")
	r := openRecord(dir, "boot", nil)
	remember(t, r, kernel.Record{Made: all[:1999]})
	whole := size()
	remember(t, r, kernel.Record{Made: all})
	if more := size() - whole; more > 100 {
		t.Errorf("one more virtual server took %d bytes", more)
	}
	remember(t, r, kernel.Record{Made: all})
	left := virtuals(1, "wlc")
	remember(t, r, kernel.Record{Made: all[:500], Left: left})
	for i := range 5000 {
		remember(t, r, kernel.Record{Made: all[i%3 : 500], Left: left})
	}
	if n := size(); n > 2*whole {
		t.Errorf("the journal has grown to %d bytes for 500 virtual servers", n)
	}
	remember(t, r, kernel.Record{Made: all[1:3], Left: left})

	if again := openRecord(dir, "boot", nil); !slices.Equal(again.last.Made, all[1:3]) || !slices.Equal(again.last.Left, left) {
		t.Errorf("read: %v", again.last)
	}
	if other := openRecord(dir, "another", nil); other.last.Made != nil {
		t.Error("the record of another boot was believed")
	}
}

// A file that another program wrote costs the record but not the start, and is
// rewritten.
func TestRecordTamperedWith(t *testing.T) {
	head := openRecord(t.TempDir(), "boot", nil).head
	line := "-A -t 10.96.0.0:80 -s rr\n"
	for name, c := range map[string]struct {
		text   string
		made   int
		warned bool
	}{
		"torn":          {head + line + "-A -t 10.96.0.1:8", 1, false},
		"garbage":       {head + line + "garbage\n", 0, true},
		"binary":        {"\x00\xff", 0, false},
		"empty":         {"", 0, false},
		"no head":       {line, 0, false},
		"too large":     {head + strings.Repeat("\n", maxRecord), 0, true},
		"another shape": {head + "-A -t 10.96.0.0:80 -s rr -M 99\n", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, recordFile)
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			r := openRecord(dir, "boot", nil)
			if len(r.last.Made) != c.made || (r.err != nil) != c.warned {
				t.Errorf("%v, %v", r.last, r.err)
			}
			remember(t, r, kernel.Record{Made: virtuals(3, "rr")})
			if again := openRecord(dir, "boot", nil); len(again.last.Made) != 3 {
				t.Errorf("afterwards: %v, %v", again.last, again.err)
			}
		})
	}
}

// A link, which the service's user could create, is not followed.
func TestRecordBehindALink(t *testing.T) {
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	r := openRecord(dir, "boot", nil)
	if err := os.WriteFile(victim, fmt.Append(nil, r.head, "-A -t 10.96.0.0:80 -s rr\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(victim)
	if err := os.Symlink(victim, filepath.Join(dir, recordFile)); err != nil {
		t.Fatal(err)
	}
	r = openRecord(dir, "boot", nil)
	if r.last.Made != nil {
		t.Error("what is behind the link was believed")
	}
	remember(t, r, kernel.Record{Made: virtuals(3, "rr")})
	if after, _ := os.ReadFile(victim); string(after) != string(before) {
		t.Errorf("behind the link: %q", after)
	}
}
