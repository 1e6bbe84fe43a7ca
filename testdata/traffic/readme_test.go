package traffic

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// TestReadmeQuickstart pastes the README's quickstart into a shell, without its
// first line, which builds, and then the lines that take everything back.
func TestReadmeQuickstart(t *testing.T) {
	if os.Getenv("SVCPROXY_GUEST") != "1" {
		t.Skip("writes to /etc: only in the guest")
	}
	kerneltest.NewNamespace(t)
	kerneltest.Need(t, kerneltest.IPVS, kerneltest.Dummy, kerneltest.Tool("curl"), kerneltest.Tool("busybox"))
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(readme), 2)
	if len(blocks) != 2 {
		t.Fatalf("%d sh blocks in the README, want the quickstart and its end", len(blocks))
	}
	start, built := strings.CutPrefix(blocks[0][1], "make\n")
	if !built {
		t.Fatal("the quickstart does not begin with make")
	}
	shell := exec.Command("bash", "-e")
	shell.Dir = "../.."
	shell.Stdin = strings.NewReader(start + "echo end of quickstart\n" + blocks[1][1] + "echo end of cleanup\n")
	out, err := shell.CombinedOutput()
	text := string(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, want := range []string{"ok: 1 services", "hello from web1", "hello from web2", "end of quickstart", "end of cleanup"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not print %q:\n%s", want, text)
		}
	}
	if left := kerneltest.Run(t, "ipvsadm", "-Sn") + kerneltest.Run(t, "ipset", "list", "-n"); left != "" {
		t.Errorf("left over:\n%s", left)
	}
}
