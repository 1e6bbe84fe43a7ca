package convert

import (
	"strings"
	"testing"
)

// The lines of a definition count as those that it stands for.
func TestLongDefinition(t *testing.T) {
	text := "$A=\\\n" + strings.Repeat("x\\\n", maxLines)
	_, err := Read(Keepalived, File{Name: "f", Data: []byte(text)}, nil)
	if err == nil || err.Error() != "f:200001: definitions stand for more than 200000 lines" {
		t.Error(err)
	}
}
