package convert

import "testing"

// Words that are written are read as they were: a secret with a ! is none that ends there.
func TestWordsAreReadAsWritten(t *testing.T) {
	for _, w := range []string{"web", "pa!ss", "!", "a b", "a#b", "{", "it's", `say "no"`, ""} {
		line := "auth_pass " + asWord(w)
		if got, err := keepalivedWords(uncommented(line)); err != nil || len(got) != 2 || unquoted(got[1]) != w {
			t.Errorf("%s is read as %q, %v", line, got, err)
		}
	}
}
