package traffic

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// masked returns the modules that this kernel may not load: those of module_blacklist= on its command line, as
// in the guests of make test-fallback.
func masked(t *testing.T) []string {
	t.Helper()
	line, err := os.ReadFile("/proc/cmdline")
	must(t, err)
	for word := range strings.FieldsSeq(string(line)) {
		if names, ok := strings.CutPrefix(word, "module_blacklist="); ok {
			return strings.Split(names, ",")
		}
	}
	return nil
}

// Without a configured mode the best one that the machine has serves.
func TestFallback(t *testing.T) {
	if os.Getenv("SVCPROXY_TEST_MODE") == "" {
		inGuest(t, "depends on what this machine's kernel can load") // make test-modes knows that it has rules
	}
	kerneltest.Need(t, kerneltest.Root, kerneltest.Tool("iptables"))
	best := "ipvs"
	if slices.Contains(masked(t), "ip_vs") || cmp.Or(kerneltest.IPVS.Missing(), kerneltest.Dummy.Missing()) != nil {
		best = "nftables"
	}
	t.Run("to what the kernel has", func(t *testing.T) { servesBest(t, best, "") })
	old := t.TempDir()
	for _, tool := range []string{"iptables", "ip6tables"} {
		must(t, os.WriteFile(filepath.Join(old, tool), []byte("#!/bin/sh\necho "+tool+" v1.4.21\n"), 0o755))
	}
	if slices.Contains(masked(t), "x_tables") {
		return // by nftables, whatever iptables there is
	}
	t.Run("with iptables of 2013", func(t *testing.T) { servesBest(t, best, old) })
	if best == "ipvs" && !native() { // which needs no iptables
		t.Run("not at once", func(t *testing.T) { waitsForLastMode(t, best, old) })
	}
}

// waitsForLastMode wants a start to look again for what the mode of the last run lacks. old has programs that hide the right
// ones.
func waitsForLastMode(t *testing.T, mode, old string) {
	n := prepare(t, lab.New, "mode = \"\"\n")
	n.start(t, web)
	must(t, n.Stop())
	must(t, n.Configure("mode = \"\"\nmodeGrace = \"20s\"\n"))
	t.Setenv("PATH", old+":"+os.Getenv("PATH"))
	mark := n.Log.Len()
	must(t, n.Start())
	if _, err := n.Wait(mark, `"the mode of the last run is not available yet: trying again" mode=`+mode); err != nil {
		t.Fatal(err)
	}
	must(t, os.RemoveAll(old))
	if _, err := n.Wait(mark, `"Using `+mode+` Proxier\."`); err != nil {
		t.Error(err)
	}
	must(t, n.Stop())
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Errorf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
}

// servesBest wants svcproxy to choose a mode. The log has kube-proxy's lines, and svcproxy is degraded if it is not the
// preferred mode. The metrics and /proxyMode name the mode. A configured mode is that one or exit code 4. path, if not "", is where svcproxy finds programs first.
func servesBest(t *testing.T, mode, path string) {
	const best = "mode = \"\"\n" + listeners
	n := prepare(t, lab.New, best)
	if path != "" {
		t.Setenv("PATH", path+":"+os.Getenv("PATH"))
	}
	lines := map[string][]string{"nftables": {`"Can't use ipvs proxier, trying nftables proxier" reason=`}}[mode]
	steppedDown := len(lines) > 0
	n.start(t, web)
	for _, want := range append(lines, `"Using `+mode+` Proxier."`) {
		if !strings.Contains(n.Log.String(), want) {
			t.Errorf("no %s in the log", want)
		}
	}
	for range 6 {
		for _, network := range []string{"tcp", "udp"} {
			ask(t, n.Client, network, "10.96.0.20:80")
			ask(t, n.Client, network, "[fd00:96::20]:80")
		}
	}
	wantCode := 0
	if steppedDown {
		wantCode = 7
	}
	wantMode(t, n, mode, steppedDown)
	out, code, err := n.Command("status")
	if err != nil || code != wantCode || !strings.Contains(out, "mode "+mode) || strings.Contains(out, "mode "+mode+" instead of ipvs: ") != steppedDown {
		t.Errorf("status: %v, exit code %d, want %d\n%s", err, code, wantCode, out)
	}
	if out, code, err := n.Command("events"); err != nil || code != 0 || strings.Contains(out, "modeFallback") != steppedDown {
		t.Errorf("events: %v, exit code %d\n%s", err, code, out)
	}
	if out, code, err := n.Command("plan"); err != nil || code != 0 || !strings.Contains(out, "nothing to do") {
		t.Errorf("plan: %v, exit code %d\n%s", err, code, out)
	}
	must(t, n.Stop())
	if out, code, err := n.Command("doctor"); err != nil || code != 7 || strings.Contains(out, " note: mode "+mode+" instead of ipvs: ") != steppedDown {
		t.Errorf("doctor of a node where svcproxy does not run: %v, exit code %d\n%s", err, code, out)
	}
	if steppedDown {
		must(t, n.Configure("mode = \"ipvs\"\n"))
		if out, code, err := n.Command("run"); err != nil || code != 4 || !strings.Contains(out, "hint: ") {
			t.Errorf("mode ipvs: %v, exit code %d\n%s", err, code, out)
		}
		must(t, n.Configure(best))
	}
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Errorf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
}

// wantMode wants the metrics and /proxyMode to name a mode that the configuration does not.
func wantMode(t *testing.T, n node, mode string, steppedDown bool) {
	t.Helper()
	here := n.Lab.Node.HTTP(lab.AskLimit)
	reason := `""} 1` + "\n"
	if steppedDown {
		reason = `"ipvs: `
	}
	answers(t, here, "http://127.0.0.1:10249/metrics", 200, fmt.Sprintf(`svcproxy_mode_info{configured="",mode=%q,reason=`, mode)+reason)
	if _, body, err := get(here, "http://127.0.0.1:10249/proxyMode"); err != nil || body != mode {
		t.Errorf("/proxyMode: %q, %v, want %s", body, err, mode)
	}
}
