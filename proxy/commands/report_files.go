package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/report"
)

// toolLimit is how long a tool may take that a report runs.
const toolLimit = 10 * time.Second

// versions says what runs here.
func (g *gathering) versions(ctx context.Context) string {
	var b strings.Builder
	fmt.Fprintf(&b, "svcproxy %s (%s, %s/%s)\n", g.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if st := g.f.Status; st != nil {
		fmt.Fprintf(&b, "running: svcproxy %s since %s, mode %s\n", st.Daemon.Version,
			st.Daemon.Started.UTC().Format(time.RFC3339), st.Daemon.Mode)
	}
	for _, path := range []string{"/proc/version", "/proc/cmdline", "/etc/os-release"} {
		if text, err := os.ReadFile(path); err == nil {
			fmt.Fprintf(&b, "\n%s:\n%s", path, text)
		}
	}
	b.WriteString("\n")
	for _, tool := range []string{"iptables", "ip6tables", "nft", "ipset", "ipvsadm", "systemctl"} {
		out, err := runTool(ctx, tool, "--version")
		first, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
		if err != nil && first == "" {
			first = err.Error()
		}
		fmt.Fprintf(&b, "%s: %s\n", tool, first)
	}
	return b.String()
}

func runTool(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(out), err
}

// configuration adds the files of the configuration, without comments and secrets.
func (g *gathering) configuration() {
	var paths []string
	if g.setup.File != "" {
		paths = append(paths, g.setup.File)
	}
	for _, pattern := range g.setup.ServiceFiles() {
		found, _ := filepath.Glob(pattern)
		slices.Sort(found)
		paths = append(paths, found...)
	}
	for _, path := range optionsFiles {
		if _, err := os.Stat(path); err == nil {
			paths = append(paths, path)
		}
	}
	for i, path := range paths {
		if slices.Contains(paths[:i], path) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			g.report.Lacks(path, err)
			continue
		}
		yaml := path == g.setup.File && g.setup.YAML
		g.report.Add("configuration/"+strings.TrimPrefix(filepath.Clean(path), "/"), "without comments and secrets",
			cleaned(path, string(text), yaml))
	}
}

// optionsFiles are read by systemd, as lines of a shell.
var optionsFiles = []string{"/etc/default/svcproxy", "/etc/sysconfig/svcproxy"}

// cleaned returns a file without comments and secrets. The other files are TOML, whatever they are called.
func cleaned(path, text string, yaml bool) string {
	switch {
	case yaml:
		return report.YAML(text)
	case slices.Contains(optionsFiles, path):
		return withoutComments(text)
	}
	return report.TOML(text)
}

// withoutComments drops the lines of a file that are comments.
func withoutComments(text string) string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		return strings.HasPrefix(strings.TrimSpace(line), "#")
	})
	return strings.Join(lines, "\n")
}

// log adds the last lines of the journal.
func (g *gathering) log(ctx context.Context) {
	out, err := runTool(ctx, "journalctl", "--unit", "svcproxy", "--lines", "2000", "--no-pager", "--quiet", "--output",
		"short-iso")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		g.report.Lacks("the log", errors.New("there is no journal"))
	case err != nil:
		g.report.Lacks("the log", fmt.Errorf("journalctl: %w: %s", err, strings.TrimSpace(out)))
	case strings.TrimSpace(out) == "":
		g.report.Lacks("the log", errors.New("the journal shows no line of svcproxy: run as root, or as a member of the "+
			"group systemd-journal"))
	default:
		g.report.Add("log.txt", "the last lines of the journal", out)
	}
}
