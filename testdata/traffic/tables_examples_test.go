package traffic

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

const examples = "../../packaging/examples"

// shop is the VIP of the examples' service, web.
const shop = "10.96.0.40:80"

// withPath returns a node with a folder in which svcproxy is a command that knows the node's configuration, and which
// has web.toml.
func withPath(t *testing.T, wait string) (node, string) {
	t.Helper()
	n := newNode(t, "")
	n.start(t, strings.ReplaceAll(web, "[services.web]", "[services.other]"))
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "svcproxy"), fmt.Appendf(nil, "#!/bin/sh\nexec %s \"$@\" --config %s%s\n",
		n.Binary, n.File, wait), 0o755))
	text, err := os.ReadFile(examples + "/ansible/web.toml")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "web.toml"), bytes.ReplaceAll(text, []byte("8080"), []byte("7000")), 0o644))
	return n, dir
}

// The lines that svcproxy-fleet(7) has for tables, with nodes that are all this one.
func TestShellOfTables(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("curl"))
	n, dir := withPath(t, "")
	page, err := os.ReadFile("../../packaging/docs/pages/svcproxy-fleet.7.md")
	must(t, err)
	_, tables, _ := strings.Cut(string(page), "\n## Tables that programs set\n")
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(tables)
	if block == nil || !strings.Contains(block[1], "for node in") {
		t.Fatalf("the page has no loop:\n%s", tables)
	}
	lines := strings.ReplaceAll(block[1], "/run/svcproxy/", filepath.Join(n.Dir, "run")+"/")
	script := fmt.Sprintf("cd %[1]s; PATH=%[1]s:$PATH\nssh() { shift; \"$@\"; }\n%s", dir, lines)
	out, err := n.Lab.Node.Run("bash", "-ec", script)
	if err != nil || !strings.Contains(out, "\nweb ") || strings.Count(out, "table web: 1 service") != 3 {
		t.Errorf("%v\n%s", err, out)
	}
	n.backs(t, shop, "pod1", "pod2")
}

// The role of Ansible sets, changes and removes a table. Where nothing changes it says so, and with --check it changes
// nothing and refuses what svcproxy would.
func TestRoleOfTables(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("ansible-playbook"))
	n, dir := withPath(t, "")
	must(t, os.CopyFS(filepath.Join(dir, "play"), os.DirFS(examples+"/ansible")))
	file := filepath.Join(dir, "play", "web.toml")
	serve := func(text string) { t.Helper(); must(t, os.WriteFile(file, []byte(text), 0o644)) }
	text, err := os.ReadFile(filepath.Join(dir, "web.toml"))
	must(t, err)
	play := func(args ...string) (string, error) {
		return n.Lab.Node.Run("env", append([]string{"-C", filepath.Join(dir, "play"), "HOME=" + dir,
			"PATH=" + dir + ":" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "ANSIBLE_NOCOLOR=1", "ansible-playbook",
			"-i", "node,", "-c", "local", "-e", "ansible_become=false ansible_python_interpreter=/usr/bin/python3", "site.yml"},
			args...)...)
	}
	want := func(tasks string, args ...string) {
		t.Helper()
		out, err := play(args...)
		if err != nil || !strings.Contains(strings.Join(strings.Fields(out), " "), "node : "+tasks) {
			t.Fatalf("%v, want %s\n%s", err, tasks, out)
		}
	}
	site, err := os.ReadFile(filepath.Join(dir, "play", "site.yml"))
	must(t, err)
	site = bytes.ReplaceAll(site, []byte("hosts: balancers"), []byte("hosts: all"))
	must(t, os.WriteFile(filepath.Join(dir, "play", "site.yml"), site, 0o644))

	serve(string(text))
	want("ok=1 changed=0", "--check")
	if out := n.table(t, 0, "list"); out != "no tables" {
		t.Errorf("--check changes something: %s", out)
	}
	want("ok=2 changed=1")
	n.backs(t, shop, "pod1", "pod2")
	want("ok=2 changed=0")
	serve(strings.Replace(string(text), `, "10.2.2.10"`, "", 1))
	want("ok=2 changed=1")
	n.backs(t, shop, "pod1")

	serve("[services.web]\nvip = 7\n")
	for _, args := range [][]string{{"--check"}, nil} {
		if out, err := play(args...); err == nil || !strings.Contains(out, "unknown key") {
			t.Errorf("%v: a bad file is not refused: %v\n%s", args, err, out)
		}
	}
	n.backs(t, shop, "pod1")
	want("ok=2 changed=1", "-e", "svcproxy_table_state=absent")
	if _, err := n.Client.Ask("tcp", netip.MustParseAddrPort(shop)); err == nil {
		t.Error("a removed table is served")
	}
	want("ok=1 changed=0", "-e", "svcproxy_table_state=absent")
}

// The role of Ansible has no fault that ansible-lint knows.
func TestRoleIsLinted(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("ansible-lint"))
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(examples+"/ansible")))
	lint := exec.Command("ansible-lint", "--offline", "--strict", "--profile", "production", "--nocolor", "site.yml")
	lint.Dir, lint.Env = dir, append(os.Environ(), "HOME="+dir, "LC_ALL=C.UTF-8")
	if out, err := lint.CombinedOutput(); err != nil || !strings.Contains(string(out), "0 failure(s), 0 warning(s)") {
		t.Errorf("%v\n%s", err, out)
	}
}

// consulTemplate does what consul-template is documented to do with a template block. Debian has no package of it. It
// renders a template of Go. If the file is not as it was, it renames the new one into its place and runs the command.
type consulTemplate struct {
	source, destination string
	command             []string
}

// consulInstance is what the template function service returns a list of.
type consulInstance struct {
	Address string
	Port    int
}

// readConsulTemplate reads a template block, with its folders in dir.
func readConsulTemplate(t *testing.T, config, dir string) (c consulTemplate) {
	t.Helper()
	text, err := os.ReadFile(config)
	must(t, err)
	in := strings.NewReplacer("/etc/consul-template.d", filepath.Dir(config), "/var/lib/consul-template", dir)
	value := func(key string) string {
		found := regexp.MustCompile(`(?m)^\s*` + key + `\s*= (.*)$`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no %s", config, key)
		}
		return in.Replace(string(found[1]))
	}
	c.source, c.destination = strings.Trim(value("source"), `"`), strings.Trim(value("destination"), `"`)
	for _, word := range regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(value("command"), -1) {
		c.command = append(c.command, word[1])
	}
	return c
}

func (c *consulTemplate) render(on *lab.Host, path string, instances ...consulInstance) (ran bool, err error) {
	of := template.FuncMap{"service": func(string) []consulInstance { return instances }}
	from, err := template.New(filepath.Base(c.source)).Funcs(of).ParseFiles(c.source)
	if err != nil {
		return false, err
	}
	var text bytes.Buffer
	if err := from.Execute(&text, nil); err != nil {
		return false, err
	}
	was, err := os.ReadFile(c.destination)
	if err == nil && bytes.Equal(was, text.Bytes()) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := os.WriteFile(c.destination+".new", text.Bytes(), 0o640); err != nil {
		return false, err
	}
	if err := os.Rename(c.destination+".new", c.destination); err != nil {
		return false, err
	}
	_, err = on.Run("env", append([]string{"PATH=" + path}, c.command...)...)
	return true, err
}

// The example for consul-template follows the instances of a service, also to none and back.
func TestConsulTemplateSetsATable(t *testing.T) {
	n, dir := withPath(t, " --wait")
	c := readConsulTemplate(t, examples+"/consul-template/svcproxy.hcl", dir)
	render := func(want bool, instances ...consulInstance) {
		t.Helper()
		ran, err := c.render(n.Lab.Node, dir+":"+os.Getenv("PATH"), instances...)
		if err != nil || ran != want {
			t.Fatalf("the command ran %t, want %t: %v", ran, want, err)
		}
	}
	one, two := consulInstance{"10.2.1.10", 7000}, consulInstance{"10.2.2.10", 7000}
	render(true, one, two)
	n.backs(t, shop, "pod1", "pod2")
	render(false, one, two)
	render(true, two)
	n.backs(t, shop, "pod2")
	render(true)
	if _, err := n.Client.Ask("tcp", netip.MustParseAddrPort(shop)); err == nil {
		t.Error("a service without instances is served")
	}
	render(true, one)
	n.backs(t, shop, "pod1")
}
