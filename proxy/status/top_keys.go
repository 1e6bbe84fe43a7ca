package status

import (
	"context"
	"io"
	"strings"
)

// press returns the view after some keys, as a terminal in raw mode sends them,
// and whether one of them quits. A page has this many rows.
func (v topView) press(input string, page int) (topView, bool) {
	for len(input) > 0 {
		key := input[:1]
		if strings.HasPrefix(input, "\x1b[") {
			key = controlSequence(input)
		}
		input = input[len(key):]
		switch key {
		case "q", "Q", "\x03", "\x04": // ^C, ^D
			return v, true
		case "c", "b", "n":
			v.sort = topSort(key[0])
		case "e":
			v.endpoints = !v.endpoints
		case "j", "\x1b[B":
			v.first++
		case "k", "\x1b[A":
			v.first--
		case " ", "\x1b[6~":
			v.first += page
		case "\x1b[5~":
			v.first -= page
		case "g", "\x1b[H":
			v.first = 0
		}
		v.first = max(0, v.first)
	}
	return v, false
}

// controlSequence is the control sequence (ECMA-48) at the start of some input.
func controlSequence(input string) string {
	for i := 2; i < len(input); i++ {
		if c := input[i]; c >= 0x40 && c <= 0x7e {
			return input[:i+1]
		}
	}
	return input
}

// readKeys sends what is typed until ctx or the input ends. Nothing interrupts a
// read that waits for a key: it ends with the process.
func readKeys(ctx context.Context, in io.Reader, pressed chan<- string) {
	defer close(pressed)
	buf := make([]byte, 64)
	for {
		n, err := in.Read(buf)
		if err != nil {
			return
		}
		select {
		case pressed <- string(buf[:n]):
		case <-ctx.Done():
			return
		}
	}
}
