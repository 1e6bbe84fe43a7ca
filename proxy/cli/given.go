package cli

import (
	"strconv"
	"strings"
)

// Given names the arguments that a command got, for a message about them: `none`, or `"a" "b"`.
func Given(args []string) string {
	if len(args) == 0 {
		return "none"
	}
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = strconv.Quote(a)
	}
	return strings.Join(quoted, " ")
}
