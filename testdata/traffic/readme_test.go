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
	inGuest(t, "writes to /etc")
	kerneltest.NewNamespace(t)
	kerneltest.Need(t, kerneltest.IPVS, kerneltest.Dummy, kerneltest.Tool("curl"), kerneltest.Tool("busybox"))
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, quickstart, _ := strings.Cut(string(readme), "\n## Quickstart\n")
	quickstart, _, _ = strings.Cut(quickstart, "\n## ")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(quickstart, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d sh blocks in the README's quickstart, want the start and the end", len(blocks))
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
	for _, want := range []string{"ok: 1 service", "hello from web1", "hello from web2", "end of quickstart", "end of cleanup"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not print %q:\n%s", want, text)
		}
	}
	if left := kerneltest.Run(t, "ipvsadm", "-Sn") + kerneltest.Run(t, "ipset", "list", "-n"); left != "" {
		t.Errorf("left over:\n%s", left)
	}
}

// TestShellOfFirewallMarks pastes the commands that svcproxy-concepts(7) has for firewall marks into a shell.
func TestShellOfFirewallMarks(t *testing.T) {
	kerneltest.NewNamespace(t)
	kerneltest.Need(t, kerneltest.Tool("iptables"))
	page, err := os.ReadFile("../../packaging/docs/pages/svcproxy-concepts.7.md")
	must(t, err)
	_, marks, _ := strings.Cut(string(page), "\n## Ranges of ports and firewall marks\n")
	marks, _, _ = strings.Cut(marks, "\n## ")
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(marks, -1) {
		kerneltest.Run(t, "bash", "-ec", block[1])
	}
	if rules := kerneltest.Run(t, "iptables", "-t", "mangle", "-S", "PREROUTING"); strings.Count(rules, "-j MARK") != 2 {
		t.Errorf("want two marks:\n%s", rules)
	}
}
