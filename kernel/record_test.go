package kernel_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/testdata/world"
)

// A journal of changes gives the same record as one written at once.
func TestRecordJournal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var last kernel.Record
		r := kernel.Record{Left: world.Wanted(world.DrawTable(t, "left")).Virtuals}
		text := kernel.AppendRecord(nil, r)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			now := kernel.Record{Made: world.Wanted(world.DrawTable(t, "made")).Virtuals}
			for _, v := range now.Made {
				if n := rapid.IntRange(0, 2).Draw(t, "digest"); n > 0 {
					now.Digests = append(now.Digests, kernel.VirtualDigest{Virtual: v.Key, Digest: kernel.Digest(n)})
				}
			}
			text = kernel.AppendChanges(text, last, now)
			last = now
		}
		got, lines, err := kernel.ParseRecord(text)
		if err != nil || lines != strings.Count(string(text), "\n") {
			t.Fatalf("%d lines, %v:\n%s", lines, err, text)
		}
		if !slices.Equal(got.Made, last.Made) || !slices.Equal(got.Digests, last.Digests) || !slices.Equal(got.Left, r.Left) {
			t.Fatalf("got %v, want %v and %v, from\n%s", got, last, r.Left, text)
		}
	})
}

func TestRecordCutShort(t *testing.T) {
	const text = "-A -t 10.96.0.1:80 -s rr\n-A -t 10.96.0.2:80 -s rr -b flag-1\n-D -t 10.96.0.1:80\n"
	for cut := range len(text) {
		if _, _, err := kernel.ParseRecord([]byte(text[:cut])); err != nil {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	for _, line := range []string{"", "x", "-A", "-D", "-A -t 10.96.0.1:80", "-D -t 10.96.0.1:80 x", "#: left -D -t 10.96.0.1:80", "-a -t 10.96.0.1:80 -r 10.2.0.1:80", "-A -f 0 -s rr"} {
		if r, _, err := kernel.ParseRecord([]byte(line + "\n")); err == nil {
			t.Errorf("%q is %v", line, r)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte("-A -t 10.96.0.1:80 -s mh\n#: digest -t 10.96.0.1:80 0123456789ab\n"))
	f.Add([]byte("#: left -A -t 10.96.0.9:80 -s rr\n-A -t 10.96.0.1:80 -s mh -p 10 -M 24 -b flag-1,flag-2\n-D -u [fd00::1]:53\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, _, err := kernel.ParseRecord(text)
		if err != nil {
			return
		}
		own := kernel.AppendRecord(nil, r)
		again, _, err := kernel.ParseRecord(own)
		if err != nil || !slices.Equal(again.Made, r.Made) || !slices.Equal(again.Digests, r.Digests) || !slices.Equal(again.Left, r.Left) {
			t.Fatalf("%v; %q gives %v, which gives %v", err, text, r, again)
		}
	})
}
