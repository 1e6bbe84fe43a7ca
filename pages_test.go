package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/commands"
)

// TestExamplesOfPages wants check to accept, without a warning, each TOML example of the manual pages, of the README and
// of the files that the packages install. The svcproxy commands of the pages must have valid flags.
func TestExamplesOfPages(t *testing.T) {
	texts := map[string][]string{"README.md": fencedTOML(t, "README.md")}
	dir := t.TempDir()
	p := program(&commands.Env{Version: "1"})
	if err := p.Run(t.Context(), []string{"docs", dir}, os.Stderr); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.[578]"))
	if err != nil || len(pages) < 5 {
		t.Fatalf("manual pages %q: %v", pages, err)
	}
	for _, page := range pages {
		texts[filepath.Base(page)] = literals(t, page)
	}
	for _, name := range []string{"packaging/etc/services.toml", "packaging/etc/svcproxy.toml"} {
		texts[name] = []string{uncommented(t, name)}
	}
	files, lines := 0, 0
	for name, blocks := range texts {
		for _, block := range blocks {
			switch {
			case strings.HasPrefix(block, "[") || strings.HasPrefix(block, "# /etc/svcproxy/svcproxy.toml") || strings.HasSuffix(name, ".toml"):
				files++
				checkExample(t, name, block, strings.Contains(block, "# /etc/svcproxy/svcproxy.toml") || filepath.Base(name) == "svcproxy.toml")
			case name != "README.md":
				for line := range strings.Lines(block) {
					if argv, ours := strings.CutPrefix(strings.TrimSpace(line), "svcproxy "); ours {
						lines++
						parseExample(t, name, argv)
					}
				}
			}
		}
	}
	if files < 15 || lines < 30 {
		t.Errorf("only %d examples of files and %d of commands: are they still found?", files, lines)
	}
}

// checkExample checks a file of services, or the configuration with no services.
func checkExample(t *testing.T, where, text string, configuration bool) {
	t.Helper()
	dir := t.TempDir()
	config, services := filepath.Join(dir, "svcproxy.toml"), filepath.Join(dir, "services.toml")
	contents := map[string]string{config: "", services: text}
	if where == "README.md" {
		contents[config] = `clusterCIDR = "10.2.0.0/16"` // without it check warns of cluster IPs
	}
	if configuration {
		contents = map[string]string{config: text, services: "services = {}\n"}
	}
	if c := contents[config]; !strings.Contains(c, "stateDir") { // the state of this machine's own svcproxy would count
		contents[config] = fmt.Sprintf("stateDir = %q\n%s", dir, c)
	}
	for name, content := range contents {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var warnings bytes.Buffer
	p := program(&commands.Env{Out: out, Err: &warnings, Version: "1"})
	if err := p.Run(t.Context(), []string{"check", "--config", config, services}, out); err != nil || warnings.Len() > 0 {
		t.Errorf("%s has an example that check does not take: %v\n%s\n%s", where, err, warnings.String(), text)
	}
}

func parseExample(t *testing.T, where, argv string) {
	t.Helper()
	p := program(&commands.Env{})
	words := strings.Fields(strings.ReplaceAll(argv, "'", ""))
	for _, c := range p.Visible() {
		if c.Name != words[0] {
			continue
		}
		if err := p.FlagSet(c).Parse(words[1:]); err != nil {
			t.Errorf("%s has the command svcproxy %s: %v", where, argv, err)
		}
		return
	}
	t.Errorf("%s has svcproxy %s, which is no command", where, argv)
}

// literals are the examples of a manual page, which are between .nf and .fi.
func literals(t *testing.T, path string) (blocks []string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer(`\&`, "", `\-`, "-", `\(ha`, "^", `\(ti`, "~", `\(ga`, "`", `\(aq`, "'", `\e`, `\`)
	for _, part := range strings.Split(string(page), "\n.nf\n")[1:] {
		block, _, _ := strings.Cut(part, "\n.fi\n")
		blocks = append(blocks, plain.Replace(block)+"\n")
	}
	return blocks
}

// fencedTOML are the blocks of TOML of a Markdown file.
func fencedTOML(t *testing.T, path string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "\n```toml\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```\n")
		blocks = append(blocks, block+"\n")
	}
	return blocks
}

// uncommented is a shipped file with its commented examples in effect: lines of tables, keys, values and brackets.
func uncommented(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		code, comment := strings.CutPrefix(line, "# ")
		first := strings.TrimSpace(code)
		switch {
		case !comment, strings.HasPrefix(first, "["), strings.HasPrefix(first, "]"), strings.HasPrefix(first, `"`), strings.HasPrefix(first, "{"):
			b.WriteString(code)
		case strings.Contains(code, " = ") && !strings.Contains(strings.SplitN(code, " = ", 2)[0], " "):
			b.WriteString(code)
		}
	}
	return b.String()
}
