package kernel_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
)

// A journal of changes comes to what a record written as a whole comes to.
func TestRecordJournal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var last []kernel.Virtual
		r := kernel.Record{Left: wanted(drawTable(t, "left")).Virtuals}
		text := kernel.AppendRecord(nil, r)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			now := wanted(drawTable(t, "made")).Virtuals
			text = kernel.AppendMade(text, last, now)
			last = now
		}
		got, lines, err := kernel.ParseRecord(text)
		if err != nil || lines != strings.Count(string(text), "\n") {
			t.Fatalf("%d lines, %v:\n%s", lines, err, text)
		}
		if !slices.Equal(got.Made, last) || !slices.Equal(got.Left, r.Left) {
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
	for _, line := range []string{"", "x", "-A", "-D", "-A -t 10.96.0.1:80", "-D -t 10.96.0.1:80 x", "#: left -D -t 10.96.0.1:80", "-a -t 10.96.0.1:80 -r 10.2.0.1:80", "-A -f 1 -s rr"} {
		if r, _, err := kernel.ParseRecord([]byte(line + "\n")); err == nil {
			t.Errorf("%q is %v", line, r)
		}
	}
}

// What is remembered is what is ours and there; foreign ones never.
func TestMade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		foreign := foreigners(t)
		w := newWorld(t, foreign)
		w.sync(wanted(drawTable(t, "a")))
		o := w.read()
		made := o.Made()
		for _, v := range o.Virtuals {
			if slices.Contains(made, v) == slices.Contains(foreign.Virtuals, v) {
				t.Fatalf("%s: remembered %v", v, slices.Contains(made, v))
			}
		}
		b := wanted(drawTable(t, "b"))
		making := o.Making(kernel.Diff(b, o).Ops)
		for _, v := range making {
			if !slices.Contains(made, v) && !slices.Contains(b.Virtuals, v) {
				t.Fatalf("%s is neither ours nor wanted", v)
			}
		}
		w.sync(b)
		for _, v := range b.Virtuals {
			// What was ours and not changed is in made.
			if making != nil && !slices.Contains(making, v) && !slices.ContainsFunc(foreign.Virtuals, func(f kernel.Virtual) bool { return f.Key == v.Key }) {
				t.Fatalf("%s was made and not foreseen", v)
			}
		}
		// By the record alone, the set being empty, the same are ours.
		o.Owned, o.Record.Made = nil, made
		o.Entries = slices.DeleteFunc(o.Entries, func(e kernel.Entry) bool { return strings.HasSuffix(e.Set, string(kernel.VirtualServer)) })
		if again := o.Made(); !slices.Equal(again, made) {
			t.Fatalf("by the record %v, want %v", again, made)
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte("#: left -A -t 10.96.0.9:80 -s rr\n-A -t 10.96.0.1:80 -s mh -p 10 -M 24 -b flag-1,flag-2\n-D -u [fd00::1]:53\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, _, err := kernel.ParseRecord(text)
		if err != nil {
			return
		}
		own := kernel.AppendRecord(nil, r)
		again, _, err := kernel.ParseRecord(own)
		if err != nil || !slices.Equal(again.Made, r.Made) || !slices.Equal(again.Left, r.Left) {
			t.Fatalf("%v; %q gives %v, which gives %v", err, text, r, again)
		}
	})
}
