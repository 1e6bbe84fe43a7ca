package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/commands"
)

// documents returns the texts that people read: the README and the pages of the guide, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("packaging/docs/pages/*.md")
	if err != nil || len(paths) < 8 {
		t.Fatalf("pages %q: %v", paths, err)
	}
	texts := map[string]string{}
	for _, path := range append(paths, "README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(text)
	}
	return texts
}

var (
	fenced = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	code   = regexp.MustCompile("`((?:bin/)?svcproxy [^`]+)`")
	absent = regexp.MustCompile("(?m)^svcproxy: warning: .*: the program of its health check is not here: .*\n")
	row    = regexp.MustCompile("(?m)^\\| (`[^|]*[\"}]`) \\|")
)

// TestExamplesOfPages wants check to accept, without a warning, each TOML example of the README, the pages, and the
// files that the packages install, and each example of Kubernetes objects. Shell examples must be bash, and svcproxy's
// commands, also within sentences, must have valid flags.
func TestExamplesOfPages(t *testing.T) {
	files, lines := 0, 0
	inText := func(where, text string) {
		for line := range strings.Lines(text) {
			line = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "# "), "bin/")
			if argv, ours := strings.CutPrefix(line, "svcproxy "); ours {
				lines++
				parseExample(t, where, argv)
			}
		}
	}
	for path, text := range documents(t) {
		for _, block := range fenced.FindAllStringSubmatch(text, -1) {
			switch language, content := block[1], block[2]; language {
			case "toml":
				files++
				name := "services.toml"
				if strings.HasPrefix(content, "# /etc/svcproxy/svcproxy.toml") {
					name = "svcproxy.toml"
				}
				checkExample(t, path, name, content)
			case "yaml":
				files++
				checkExample(t, path, "objects.yaml", content)
			case "sh", "console":
				bash := exec.Command("bash", "-n")
				bash.Stdin = strings.NewReader(content)
				if out, err := bash.CombinedOutput(); err != nil {
					t.Errorf("%s: %v: %s\n%s", path, err, out, content)
				}
				inText(path, content)
			case "text":
			default:
				t.Errorf("%s has a block of language %q, which nothing tests:\n%s", path, language, content)
			}
		}
		for _, span := range code.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			inText(path, strings.Join(strings.Fields(span[1]), " "))
		}
	}
	dir := t.TempDir()
	p := program(&commands.Env{Version: "1"})
	if err := p.Run(t.Context(), []string{"docs", dir}, os.Stderr); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"svcproxy.8", "svcproxy.toml.5", "services.toml.5"} {
		for _, block := range literals(t, filepath.Join(dir, name)) {
			if strings.HasPrefix(block, "[") {
				files++
				checkExample(t, name, "services.toml", block)
			} else {
				inText(name, block)
			}
		}
	}
	for _, name := range []string{"services.toml", "svcproxy.toml"} {
		files++
		checkExample(t, "packaging/etc", name, uncommented(t, "packaging/etc/"+name))
	}
	if files < 15 || lines < 100 {
		t.Errorf("only %d examples of files and %d of commands: are they still found?", files, lines)
	}
}

// TestHealthChecksOfPages has svcproxy check each type in the page's table of health checks. The table has all types.
func TestHealthChecksOfPages(t *testing.T) {
	var types []string
	for _, cells := range row.FindAllStringSubmatch(documents(t)["packaging/docs/pages/svcproxy-start.7.md"], -1) {
		for _, check := range regexp.MustCompile("`[^`]+`").FindAllString(cells[1], -1) {
			check = strings.Trim(check, "`")
			kind := regexp.MustCompile(`[a-z]+`).FindString(strings.TrimPrefix(check, "{ type ="))
			types = append(types, kind)
			protocol := "TCP"
			if kind == "dns" || kind == "udp" {
				protocol = "UDP"
			}
			text := fmt.Sprintf("[services.web]\nclusterIP = \"10.96.0.1\"\nports = [{ port = 80, protocol = %q }]\n", protocol)
			text += "endpoints = [\"10.2.1.10\"]\nhealthCheck = " + check + "\n"
			checkExample(t, "table of health checks", "services.toml", text)
		}
	}
	if want := "tcp http https tls dns grpc udp ping exec agent"; strings.Join(types, " ") != want {
		t.Errorf("the table has types %v, want %s", types, want)
	}
}

var (
	linked  = regexp.MustCompile(`\]\(([^():\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	symbols = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// TestLinksOfPages: the files and headings that texts link to exist. Each page is linked from the README, and in both
// packages.
func TestLinksOfPages(t *testing.T) {
	texts := documents(t)
	packages, err := os.ReadFile("packaging/nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range texts {
		if name := strings.TrimSuffix(filepath.Base(path), ".md"); path != "README.md" {
			if !strings.Contains(texts["README.md"], "("+path+")") {
				t.Errorf("README.md has no link to %s", path)
			}
			if n := strings.Count(string(packages), "src: built/"+name+".gz"); n != 2 {
				t.Errorf("packaging/nfpm.yaml has %s %d times, want it for deb and rpm", name, n)
			}
		}
		for _, link := range linked.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			content, err := os.ReadFile(filepath.Join(filepath.Dir(path), target))
			if err != nil {
				t.Errorf("%s has a link to nothing: %v", path, err)
			}
			found := anchor == ""
			for _, h := range heading.FindAllStringSubmatch(string(content), -1) {
				found = found || strings.ReplaceAll(symbols.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == anchor
			}
			if !found {
				t.Errorf("%s links to #%s, which %s does not have", path, anchor, target)
			}
		}
	}
	if n := strings.Count(texts["README.md"], "\n"); n > 200 {
		t.Errorf("README.md has %d lines, want at most 200: what operators look up belongs into a page", n)
	}
}

// checkExample checks a file of services, or with svcproxy.toml the configuration with no services.
// That the program of a health check is not on this machine is all right.
func checkExample(t *testing.T, where, file, text string) {
	t.Helper()
	dir := t.TempDir()
	config, services := filepath.Join(dir, "svcproxy.toml"), filepath.Join(dir, file)
	contents := map[string]string{config: `clusterCIDR = "10.2.0.0/16"`, services: text} // else check warns of cluster IPs
	if config == services {
		services = filepath.Join(dir, "services.toml")
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
	err = p.Run(t.Context(), []string{"check", "--config", config, services}, out)
	if err != nil || absent.ReplaceAllString(warnings.String(), "") != "" {
		t.Errorf("%s has an example that check does not take: %v\n%s\n%s", where, err, warnings.String(), text)
	}
}

func parseExample(t *testing.T, where, argv string) {
	t.Helper()
	p := program(&commands.Env{})
	words := strings.Fields(strings.ReplaceAll(strings.Split(argv, " > ")[0], "'", ""))
	if strings.HasPrefix(words[0], "-") {
		words = append([]string{"run"}, words...)
	}
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
