package traffic

import (
	"os/exec"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// On a machine with twenty programs that compute all the time, probes run late. That
// takes no endpoint down. This test runs alone, because it slows down all others.
func TestLoadTakesNothingDown(t *testing.T) {
	n := newNode(t, "health.execDirs = [\"/bin\"]\n")
	services := []checkedService{
		{name: "connects", vip: "10.96.11.1", check: "{ type = \"tcp\", " + patient + " }"},
		{name: "web", vip: "10.96.11.2", port: lab.HTTPPort, check: "{ type = \"http\", " + patient + " }"},
		{name: "program", vip: "10.96.11.3", check: "{ type = \"exec\", command = \"/bin/true\", " + patient + " }"},
	}
	n.start(t, textOf(services))
	n.allUp(t, 9)
	w := n.watch(t)
	var load []*exec.Cmd
	for range 20 {
		busy := exec.Command("sh", "-c", "while :; do :; done")
		must(t, n.Lab.Node.Start(busy))
		load = append(load, busy)
	}
	probes()
	for _, busy := range load {
		busy.Process.Kill()
		busy.Wait()
	}
	w.wantNone(t, "under load")
	n.wantOnly(t, services[0].front(), 6, (*lab.Conn).Ask, "pod1", "pod2", "pod3")
	n.allUp(t, 9)
}
