package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources/file"
)

var edition = Edition{Version: "1.2.3", Date: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}

func pages() map[string][]byte {
	prog := cli.Program{
		Name:  "svcproxy",
		Flags: func(fs *pflag.FlagSet) { config.AddFlags(fs) },
		Commands: []cli.Command{
			{Name: "run", Short: "serve until told to stop"},
			{Name: "plan", Args: "[FILE...]", Short: "print, and change nothing", Flags: func(fs *pflag.FlagSet) {
				fs.StringP("output", "o", "text", "`FORMAT` of the plan")
			}},
		},
	}
	return map[string][]byte{
		"svcproxy.8": edition.program(prog), "svcproxy.toml.5": edition.config(config.Keys()), "services.toml.5": edition.services(file.Keys()),
	}
}

// rendered is the text that man shows for a page.
func rendered(t *testing.T, name string, page []byte) string {
	t.Helper()
	kerneltest.Need(t, kerneltest.Tool("mandoc"))
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, page, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mandoc", "-T", "lint", "-W", "warning", path).CombinedOutput(); err != nil {
		t.Errorf("mandoc -T lint: %v: %s", err, out)
	}
	out, err := exec.Command("mandoc", "-T", "utf8", "-O", "width=1000", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := 0; i < len(out); i++ { // an overstruck character is shown once
		if i+1 < len(out) && out[i+1] == '\b' {
			i++
			continue
		}
		b.WriteByte(out[i])
	}
	return b.String()
}

func TestPagesSayEveryFlagAndKey(t *testing.T) {
	all := pages()
	text := rendered(t, "svcproxy.8", all["svcproxy.8"])
	for _, want := range []string{"svcproxy [run] [FLAGS]", "svcproxy plan [FLAGS] [FILE...]", "-o, --output FORMAT", "(default text)", "--ipvs-scheduler string", "\n       10 ", "svcproxy 1.2.3", "2026-03-01"} {
		if !strings.Contains(text, want) {
			t.Errorf("svcproxy(8) has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "--log-dir") {
		t.Error("svcproxy(8) has a flag that help hides")
	}
	text = rendered(t, "svcproxy.toml.5", all["svcproxy.toml.5"])
	for _, k := range config.Keys() {
		table, name, _ := cutLast(k.Path)
		if !strings.Contains(text, "\n       "+name+" ") && !strings.Contains(text, "\n       "+name+"\n") || !strings.Contains(text, sentence(k.Comment)) {
			t.Errorf("svcproxy.toml(5) does not say what %s is", k.Path)
		}
		if table != "" && !strings.Contains(text, "\n   ["+table+"]\n") {
			t.Errorf("svcproxy.toml(5) has no table %s", table)
		}
	}
	text = rendered(t, "services.toml.5", all["services.toml.5"])
	for _, k := range file.Keys() {
		if shared(k) {
			continue
		}
		if !strings.Contains(text, k.Path) || !strings.Contains(text, sentence(k.Comment)) {
			t.Errorf("services.toml(5) does not say what %s is", k.Path)
		}
	}
	if !strings.Contains(text, `  { name = "http",  port = 80,  targetPort = 8080 },`) {
		t.Error("services.toml(5) does not show its example as it is")
	}
}

func TestExampleIsValid(t *testing.T) {
	if _, _, problems := file.Decode("example", []byte(example)); len(problems) > 0 {
		t.Error(problems)
	}
}

// The test reads the exit codes from the source and wants each of them explained.
func TestEveryExitCodeIsSaid(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "../../proxy/cli/exit.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := 0
	ast.Inspect(parsed, func(n ast.Node) bool {
		if g, ok := n.(*ast.GenDecl); ok && g.Tok == token.CONST {
			codes += len(g.Specs)
		}
		return true
	})
	if codes != len(exits) {
		t.Errorf("package cli has %d codes, svcproxy(8) explains %d", codes, len(exits))
	}
}

func TestWhatRoffWouldTakeForItsOwn(t *testing.T) {
	p := newPage("x", 1, "1", edition.Date, "a page")
	p.text(`.TH is no macro here. 'Nor this. C:\new is a path, and --flag has two dashes`)
	p.item("-a^b~c", ".B")
	p.literal(".literal\n'too\n")
	text := rendered(t, "x.1", p.Bytes())
	for _, want := range []string{".TH is no macro here.", "'Nor this.", `C:\new is a path, and --flag`, "-a^b~c", ".B", ".literal", "'too"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// The guide is rendered as it is meant: headings, lists, tables, links, examples and emphasis.
func TestProse(t *testing.T) {
	all, err := edition.prose()
	if err != nil || len(all) < 8 {
		t.Fatal(all, err)
	}
	for name, page := range all {
		text := rendered(t, name, page)
		for _, raw := range []string{"```", "\n- ", "## ", "`", "*", ".md", "](", "|--"} {
			if strings.Contains(text, raw) {
				t.Errorf("%s shows %q as it is written:\n%s", name, raw, text)
			}
		}
	}
	for name, wants := range map[string][]string{
		"svcproxy-concepts.7": {
			"\nCLIENT ADDRESSES\n", "\n   The VIP is in no network of the node\n", "\n           keepClientAddress = true\n",
			"svcproxy-migration(7)",
		},
		"svcproxy-limits.7": {"• Layer 7: no HTTP routing", "\n       load the table\n              ipvs: 1; iptables (nft): 8.1; "},
		"svcproxy-start.7":  {"\n       \"ping\" it answers", " 1. Write services.toml.", "see svcproxy-ha(7)."},
	} {
		text := rendered(t, name, all[name])
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %q:\n%s", name, want, text)
			}
		}
	}
}
