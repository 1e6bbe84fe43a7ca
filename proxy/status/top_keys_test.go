package status

import "testing"

// After any keys the view can still be drawn.
func FuzzPress(f *testing.F) {
	for _, keys := range []string{"cbnejkq g\x03", "\x1b[A\x1b[B\x1b[5~\x1b[6~\x1b[H", "\x1b[1;5", "\x1b", "é"} {
		f.Add(keys)
	}
	now, before := readings()
	f.Fuzz(func(t *testing.T, keys string) {
		v, _ := topView{width: 80, height: 10}.press(keys, 5)
		if v.first < 0 {
			t.Fatalf("%q: first %d", keys, v.first)
		}
		checkSize(t, keys, v.frame(now, before), v)
	})
}
