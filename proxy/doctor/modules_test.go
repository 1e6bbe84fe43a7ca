package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/machine"
)

// TestModulesAreNamedOnce holds the unit and modules-load.d to the list that doctor uses. A module that they forget is
// loaded on demand, in the middle of the first sync after a boot.
func TestModulesAreNamedOnce(t *testing.T) {
	var atBoot, ofUnit []string
	for line := range strings.Lines(readFile(t, "../../systemd/modules-load.conf")) {
		if !strings.HasPrefix(line, "#") {
			atBoot = append(atBoot, strings.Fields(line)...)
		}
	}
	// With - a missing module does not fail the start, + gives modprobe the rights to load modules.
	const start = "ExecStartPre=-+/sbin/modprobe -qa "
	unit := strings.ReplaceAll(readFile(t, "../../systemd/svcproxy.service"), "\\\n", "")
	for line := range strings.Lines(unit) {
		if names, ok := strings.CutPrefix(line, start); ok {
			ofUnit = strings.Fields(names)
		}
	}
	for _, c := range []struct {
		file      string
		has, want []string
	}{
		{"modules-load.conf", atBoot, machine.AtBoot},
		{"svcproxy.service", ofUnit, slices.Concat(machine.Needed("ipvs", false), machine.BackEnds)},
	} {
		if !slices.Equal(c.has, c.want) {
			t.Errorf("%s names the modules\n%s\nwant\n%s", c.file, strings.Join(c.has, " "), strings.Join(c.want, " "))
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
