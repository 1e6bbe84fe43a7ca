package top

import "strings"

// press is what a view is after some keys, as a terminal in raw mode sends them,
// and whether one of them ends it. Lines is how many rows a page has.
func (v View) press(input string, page int) (View, bool) {
	for len(input) > 0 {
		key := input[:1]
		if strings.HasPrefix(input, "\x1b[") {
			key = sequence(input)
		}
		input = input[len(key):]
		switch key {
		case "q", "Q", "\x03", "\x04": // ^C, ^D
			return v, true
		case "c", "b", "n":
			v.Sort = Sort(key[0])
		case "e":
			v.Endpoints = !v.Endpoints
		case "j", "\x1b[B":
			v.First++
		case "k", "\x1b[A":
			v.First--
		case " ", "\x1b[6~":
			v.First += page
		case "\x1b[5~":
			v.First -= page
		case "g", "\x1b[H":
			v.First = 0
		}
		v.First = max(0, v.First)
	}
	return v, false
}

// sequence is the control sequence (ECMA-48) at the start of some input.
func sequence(input string) string {
	for i := 2; i < len(input); i++ {
		if c := input[i]; c >= 0x40 && c <= 0x7e {
			return input[:i+1]
		}
	}
	return input
}
