// Package broken is ways to break a file, as programs, disks, editors and people do. What must hold for
// each of them is in its tests, and, with traffic on a real kernel, in testdata/traffic.
//
// It refuses to know what the files are for: it takes any valid text in TOML's manner. Some of what it
// makes of one is valid still; only who reads it can tell.
package broken

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Case is a content that a file may be found with.
type Case struct {
	Name    string
	Content []byte
}

// Mutations are n contents made of a valid one by small accidents, the same n each time.
func Mutations(valid []byte, n int) []Case {
	r := rand.New(rand.NewPCG(2026, 11))
	cases := make([]Case, n)
	for i := range cases {
		a := accidents[i%len(accidents)]
		cases[i] = Case{fmt.Sprintf("%s %d", a.name, i/len(accidents)), a.happen(r, slices.Clone(valid))}
	}
	return cases
}

var accidents = []struct {
	name   string
	happen func(*rand.Rand, []byte) []byte
}{
	{"cut", func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b))] }},
	{"beginning lost", func(r *rand.Rand, b []byte) []byte { return b[r.IntN(len(b)):] }},
	{"byte changed", func(r *rand.Rand, b []byte) []byte { b[r.IntN(len(b))] = byte(r.IntN(256)); return b }},
	{"bit flipped", func(r *rand.Rand, b []byte) []byte { b[r.IntN(len(b))] ^= 1 << r.IntN(8); return b }},
	{"byte lost", func(r *rand.Rand, b []byte) []byte { at := r.IntN(len(b)); return slices.Delete(b, at, at+1) }},
	{"byte added", func(r *rand.Rand, b []byte) []byte { return slices.Insert(b, r.IntN(len(b)), byte(r.IntN(256))) }},
	{"block of zeros", func(r *rand.Rand, b []byte) []byte {
		at := r.IntN(len(b))
		clear(b[at:min(len(b), at+1+r.IntN(64))])
		return b
	}},
	{"half of another write", func(r *rand.Rand, b []byte) []byte {
		at := r.IntN(len(b))
		return slices.Concat(b[:at], b[r.IntN(len(b)):])
	}},
	{"written twice from", func(r *rand.Rand, b []byte) []byte { return slices.Concat(b, b[r.IntN(len(b)):]) }},
	{"line lost", func(r *rand.Rand, b []byte) []byte {
		lines := bytes.SplitAfter(b, []byte("\n"))
		at := r.IntN(len(lines))
		return slices.Concat(slices.Delete(lines, at, at+1)...)
	}},
	{"line twice", func(r *rand.Rand, b []byte) []byte {
		lines := bytes.SplitAfter(b, []byte("\n"))
		at := r.IntN(len(lines))
		return slices.Concat(slices.Insert(lines, at, lines[at])...)
	}},
	{"lines swapped", func(r *rand.Rand, b []byte) []byte {
		lines := bytes.SplitAfter(b, []byte("\n"))
		i, j := r.IntN(len(lines)), r.IntN(len(lines))
		lines[i], lines[j] = lines[j], lines[i]
		return slices.Concat(lines...)
	}},
	{"line joined to the next", func(r *rand.Rand, b []byte) []byte { return without(r, b, "\n") }},
	{"bracket lost", func(r *rand.Rand, b []byte) []byte { return without(r, b, "[]{}") }},
	{"quote lost", func(r *rand.Rand, b []byte) []byte { return without(r, b, `"`) }},
	{"equals sign lost", func(r *rand.Rand, b []byte) []byte { return without(r, b, "=") }},
	{"comma lost", func(r *rand.Rand, b []byte) []byte { return without(r, b, ",") }},
	{"letter of another alphabet", func(r *rand.Rand, b []byte) []byte {
		at := one(r, b, "aceopxy")
		return slices.Replace(b, at, at+1, []byte("а")...) // Cyrillic
	}},
	{"letters swapped", func(r *rand.Rand, b []byte) []byte {
		at := one(r, b[:len(b)-1], "abcdefghijklmnopqrstuvwxyz")
		b[at], b[at+1] = b[at+1], b[at]
		return b
	}},
	{"number grown", func(r *rand.Rand, b []byte) []byte {
		return slices.Insert(b, one(r, b, "0123456789"), bytes.Repeat([]byte("9"), 1+r.IntN(25))...)
	}},
	{"sign before a number", func(r *rand.Rand, b []byte) []byte { return slices.Insert(b, one(r, b, "0123456789"), '-') }},
	{"curly quote", func(r *rand.Rand, b []byte) []byte {
		at := one(r, b, `"`)
		return slices.Replace(b, at, at+1, []byte("“")...)
	}},
	{"non-breaking space", func(r *rand.Rand, b []byte) []byte {
		at := one(r, b, " ")
		return slices.Replace(b, at, at+1, []byte("\u00a0")...)
	}},
	{"backslash added", func(r *rand.Rand, b []byte) []byte { return slices.Insert(b, r.IntN(len(b)), '\\') }},
}

// one is the place of one of some characters, or the first place if there is none.
func one(r *rand.Rand, b []byte, of string) int {
	var at []int
	for i, c := range b {
		if strings.IndexByte(of, c) >= 0 {
			at = append(at, i)
		}
	}
	if at == nil {
		return 0
	}
	return at[r.IntN(len(at))]
}

func without(r *rand.Rand, b []byte, of string) []byte {
	at := one(r, b, of)
	return slices.Delete(b, at, at+1)
}
