package top

import "testing"

// Whatever a terminal sends, a view stays one that can be shown.
func FuzzPress(f *testing.F) {
	for _, keys := range []string{"cbnejkq g\x03", "\x1b[A\x1b[B\x1b[5~\x1b[6~\x1b[H", "\x1b[1;5", "\x1b", "é"} {
		f.Add(keys)
	}
	now, before := readings()
	f.Fuzz(func(t *testing.T, keys string) {
		v, _ := View{Width: 80, Height: 10}.press(keys, 5)
		if v.First < 0 {
			t.Fatalf("%q: first %d", keys, v.First)
		}
		checkSize(t, keys, Frame(now, before, v), v)
	})
}
