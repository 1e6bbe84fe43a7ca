package appliance

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// fenced is a block of Markdown: its language and what it holds.
var fenced = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// section gives the blocks of a section of a Markdown text by their language. A
// console's has its prompts taken off.
func section(text, title string) (map[string]string, error) {
	_, text, found := strings.Cut(text, "\n## "+title+"\n")
	if !found {
		return nil, fmt.Errorf("there is no section %q", title)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	blocks := make(map[string]string)
	for _, block := range fenced.FindAllStringSubmatch(text, -1) {
		language, content := block[1], block[2]
		if blocks[language] != "" {
			return nil, fmt.Errorf("section %q has two blocks of %s: which is meant?", title, language)
		}
		if language == "console" {
			var commands strings.Builder
			for line := range strings.Lines(content) {
				command, prompt := strings.CutPrefix(line, "# ")
				if !prompt {
					return nil, fmt.Errorf("section %q: no root's prompt before %q", title, line)
				}
				commands.WriteString(command)
			}
			content = commands.String()
		}
		blocks[language] = content
	}
	return blocks, nil
}

// blocks writes the blocks of a section into files named after their languages:
// blocks FILE SECTION.
func blocks(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: blocks FILE SECTION")
	}
	found, err := section(ts.ReadFile(args[0]), args[1])
	ts.Check(err)
	for language, content := range found {
		ts.Check(os.WriteFile(ts.MkAbs(language), []byte(content), 0o644))
	}
}

// From nothing to a served VIP is less than ten commands, of which the README
// cannot say the first two: git clone and cd. That they work is newcomer.txtar's;
// here is what a node cannot know: that what they have made is a target.
func TestInstallIsShort(t *testing.T) {
	if os.Getenv(onNode) != "" {
		t.Skip("we are on the node")
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := section(string(readme), "Install")
	if err != nil {
		t.Fatal(err)
	}
	commands := strings.Split(strings.TrimSpace(blocks["console"]), "\n")
	if n := 2 + len(commands); n < 5 || n >= 10 {
		t.Errorf("%d commands to a served VIP, want less than 10: %q", n, commands)
	}
	for _, command := range commands {
		argv := strings.Fields(strings.Split(command, "#")[0])
		if argv[0] != "make" {
			continue
		}
		dry := exec.Command("make", append([]string{"-C", "../..", "-n"}, argv[1:]...)...)
		if out, err := dry.CombinedOutput(); err != nil || !strings.Contains(string(out), "packaging/build bin/packages\n") {
			t.Errorf("%s: %v: %s", command, err, out)
		}
	}
}

// TestTranscript: the operator's first days in newcomer.txtar have no command and no flag that the README and
// svcproxy-start(7) do not show.
func TestTranscript(t *testing.T) {
	if os.Getenv(onNode) != "" {
		t.Skip("we are on the node")
	}
	script, err := os.ReadFile("script/newcomer.txtar")
	if err != nil {
		t.Fatal(err)
	}
	shown := ""
	for _, file := range []string{"README.md", "packaging/docs/pages/svcproxy-start.7.md"} {
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		shown += string(text)
	}
	_, transcript, _ := strings.Cut(string(script), "\n# transcript\n")
	transcript, _, _ = strings.Cut(transcript, "\n# end of the transcript\n")
	commands := regexp.MustCompile(`(?m)(?:exec |until |exits \d+ |sh -c ')((?:svcproxy|journalctl|systemctl) [^|'\n]*)`).FindAllStringSubmatch(transcript, -1)
	if len(commands) < 10 {
		t.Errorf("only %d commands in the transcript", len(commands))
	}
	for _, c := range commands {
		words := strings.Fields(c[1])
		if command := strings.Join(words[:2], " "); !strings.Contains(shown, command) {
			t.Errorf("README and page do not show %q", command)
		}
		for _, w := range words[2:] {
			if strings.HasPrefix(w, "-") && !strings.Contains(shown, w) {
				t.Errorf("%s: README and page do not show %s", c[1], w)
			}
		}
	}
}
