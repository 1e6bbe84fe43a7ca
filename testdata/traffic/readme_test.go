package traffic

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	for _, want := range []string{"ok: 1 service", "hello from web1", "hello from web2", "end of quickstart", "end of cleanup"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not print %q:\n%s", want, text)
		}
	}
	if left := kerneltest.Run(t, "ipvsadm", "-Sn") + kerneltest.Run(t, "ipset", "list", "-n"); left != "" {
		t.Errorf("left over:\n%s", left)
	}
}

// TestReadmeHealthChecks has svcproxy check what the README says about health checks: its samples, and each type of its
// table.
func TestReadmeHealthChecks(t *testing.T) {
	program, err := filepath.Abs(binary)
	must(t, err)
	if _, err := os.Stat(program); err != nil {
		t.Skip("make build makes bin/svcproxy")
	}
	readme, err := os.ReadFile("../../README.md")
	must(t, err)
	accepted := func(what, services string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "services.toml")
		must(t, os.WriteFile(file, []byte(services), 0o644))
		if out, err := exec.Command(program, "check", file).CombinedOutput(); err != nil || !strings.Contains(string(out), "ok: 1 service") {
			t.Errorf("%s: %v\n%s\n%s", what, err, services, out)
		}
	}
	_, install, _ := strings.Cut(string(readme), "\n## Install\n")
	_, health, found := strings.Cut(install, "\n## Health checks\n")
	if !found {
		t.Fatal("the README has no section about health checks after the one about installation")
	}
	health, _, _ = strings.Cut(health, "\n## ")
	samples := regexp.MustCompile("(?s)```toml\n(.*?)```")
	first := samples.FindStringSubmatch(install)[1]
	if !strings.Contains(first, "healthCheck = \"tcp\"") {
		t.Errorf("the first sample has no health check:\n%s", first)
	}
	accepted("the first sample", first)
	for _, sample := range samples.FindAllStringSubmatch(health, -1) {
		accepted("a sample of health checks", sample[1])
	}
	var types []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*[\"}]`) \\|").FindAllStringSubmatch(health, -1) {
		for _, check := range regexp.MustCompile("`[^`]+`").FindAllString(row[1], -1) {
			check = strings.Trim(check, "`")
			kind := regexp.MustCompile(`[a-z]+`).FindString(strings.TrimPrefix(check, "{ type ="))
			types = append(types, kind)
			protocol := "TCP"
			if kind == "dns" || kind == "udp" {
				protocol = "UDP"
			}
			accepted(check, fmt.Sprintf("[services.web]\nclusterIP = \"10.96.0.1\"\nports = [{ port = 80, protocol = %q }]\nendpoints = [\"10.2.1.10\"]\nhealthCheck = %s\n", protocol, check))
		}
	}
	if want := "tcp http https tls dns grpc udp ping exec agent"; strings.Join(types, " ") != want {
		t.Errorf("the table has types %v, want %s", types, want)
	}
}
