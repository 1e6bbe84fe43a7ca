package docs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/config"
)

// table is a small program with one example of everything that a script has to handle.
var table = cli.Program{
	Name:  "svcproxy",
	Flags: func(fs *pflag.FlagSet) { config.AddFlags(fs) },
	Commands: []cli.Command{
		{Name: "run", Short: "serve: it's what flags alone mean", Flags: func(fs *pflag.FlagSet) { fs.Bool("cleanup", false, "clean") }},
		{Name: "check", Args: "[FILE...]", Short: "validate"},
		{Name: "plan", Short: "print", Flags: func(fs *pflag.FlagSet) {
			fs.StringP("output", "o", "text", "`FORMAT` of the plan: [text] or 'json'")
			cli.Offer(fs, "output", "text", "json")
			fs.String("state", "", "read from `FILE`")
		}},
		{Name: "status", Args: "[SERVICE]", Short: "look"},
		{Name: "drain", Args: "TARGET", Short: "empty", Flags: func(fs *pflag.FlagSet) { fs.StringP("service", "s", "", "of this `SERVICE`") }},
		{Name: "chores", Short: "for machines", Hidden: true},
		{Name: "completion", Args: "SHELL", Short: "print a script", Values: Shells},
	},
}

// cases are command lines whose last word is completed, in a directory with the files
// a.toml and b.txt.
var cases = []struct {
	line    string
	want    []string // offered
	without []string // not offered
}{
	{"svcproxy ", []string{"run", "check", "plan", "completion"}, []string{"a.toml", "--config"}},
	{"svcproxy ch", []string{"check"}, []string{"plan", "chores"}},
	{"svcproxy --cl", []string{"--cleanup", "--cluster-cidr"}, []string{"--output"}},
	{"svcproxy run --cleanu", []string{"--cleanup"}, nil},
	{"svcproxy plan --ou", []string{"--output"}, nil},
	{"svcproxy plan --cleanu", nil, []string{"--cleanup"}},
	{"svcproxy plan --state ", []string{"a.toml", "b.txt"}, []string{"--state"}},
	{"svcproxy plan --output ", []string{"text", "json"}, []string{"a.toml"}},
	{"svcproxy plan -o j", []string{"json"}, []string{"text"}},
	{"svcproxy plan --proxy-mode ", []string{"ipvs", "userspace"}, []string{"a.toml"}},
	{"svcproxy run --ipvs-scheduler w", []string{"wrr", "wlc"}, []string{"rr"}},
	{"svcproxy status ", []string{"web", "shop/web"}, []string{"10.2.1.10", "a.toml"}},
	{"svcproxy drain web/", []string{"web/10.2.1.10"}, []string{"web"}},
	{"svcproxy drain --service sh", []string{"shop/web"}, []string{"web/10.2.1.10"}},
	{"svcproxy check a", []string{"a.toml"}, []string{"b.txt"}},
	{"svcproxy completion ", []string{"bash", "zsh", "fish"}, []string{"a.toml"}},
	{"svcproxy completion z", []string{"zsh"}, []string{"fish"}},
	{"svcproxy check --confi", []string{"--config"}, []string{"--config-sync"}},
	{"svcproxy check --log-d", nil, []string{"--log-dir"}}, // accepted and hidden
}

// testShell runs ask, a script of the shell, with the completion script, a scratch file and
// the command lines of all cases. For each line it prints the offered words, then "end".
func testShell(t *testing.T, shell, ask string, args ...string) {
	kerneltest.Need(t, kerneltest.Tool(shell))
	t.Chdir(t.TempDir())
	for _, name := range []string{"a.toml", "b.txt"} {
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// What svcproxy names prints on a node with two services.
	bin := t.TempDir()
	program := "#!/bin/sh\ncase \"$*\" in\n'names services') printf 'shop/web\\nweb\\n' ;;\n'names targets') printf '10.2.1.10\\nweb/10.2.1.10\\n' ;;\nesac\n"
	if err := os.WriteFile(filepath.Join(bin, "svcproxy"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	var script strings.Builder
	if err := Completion(&script, shell, table); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "_svcproxy")
	if err := os.WriteFile(path, []byte(script.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	args = append(args, path, filepath.Join(dir, "said"))
	for _, c := range cases {
		args = append(args, c.line)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, args...)
	cmd.Stdin = strings.NewReader(ask)
	cmd.Env = append(os.Environ(), "HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", shell, err, out)
	}
	answers := strings.Split(string(out), "end\n")
	if len(answers) != len(cases)+1 {
		t.Fatalf("%s answers %d times, want %d: %s", shell, len(answers)-1, len(cases), out)
	}
	for i, c := range cases {
		var offered []string
		for line := range strings.Lines(answers[i]) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			offered = append(offered, strings.TrimRight(word, " ="))
		}
		for _, w := range c.want {
			if !slices.Contains(offered, w) {
				t.Errorf("%s: %q offers %q, want %q among them", shell, c.line, offered, w)
			}
		}
		for _, w := range c.without {
			if slices.Contains(offered, w) {
				t.Errorf("%s: %q offers %q", shell, c.line, w)
			}
		}
	}
}

func TestBash(t *testing.T) {
	const ask = `
		set -u; source "$1"; shift 2
		for line; do
			read -ra COMP_WORDS <<<"$line"
			[[ $line == *' ' ]] && COMP_WORDS+=("")
			COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line}
			_svcproxy svcproxy
			printf '%s\n' ${COMPREPLY[@]+"${COMPREPLY[@]}"} end
		done`
	testShell(t, "bash", ask, "--norc", "-s")
}

// bash splits words at colons. What is offered replaces the part behind the last one.
func TestBashOffersIPv6Targets(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("bash"))
	var script strings.Builder
	if err := Completion(&script, "bash", table); err != nil {
		t.Fatal(err)
	}
	const ask = `
		set -u; eval "$1"
		svcproxy() { printf '%s\n' fd00:2::10 fd00:2::11 web/fd00:2::10 10.2.1.10; }
		COMP_WORDBREAKS=$' \t\n"><=;|&(:\''
		complete() { COMP_LINE="$*" COMP_POINT=${#COMP_LINE}; read -ra COMP_WORDS <<<"${COMP_LINE//:/ : }"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _svcproxy svcproxy; echo "${COMPREPLY[*]-}"; }
		complete svcproxy drain fd00
		complete svcproxy drain fd00:
		complete svcproxy drain fd00:2::1
		complete svcproxy drain web/fd00:2::
		complete svcproxy drain fd01:
		complete svcproxy drain 10`
	out, err := exec.CommandContext(t.Context(), "bash", "--norc", "-c", ask, "bash", strings.ReplaceAll(script.String(), "complete -F", ": complete -F")).CombinedOutput()
	want := "fd00:2::10 fd00:2::11\n2::10 2::11\n10 11\n10\n\n10.2.1.10\n"
	if err != nil || string(out) != want {
		t.Errorf("%v:\n%s\nwant\n%s", err, out, want)
	}
}

func TestFish(t *testing.T) {
	const ask = `
		source $argv[1]
		for line in $argv[3..]
			complete -C $line; echo end
		end`
	testShell(t, "fish", ask, "--no-config", "/dev/stdin")
}

// zsh completes at a terminal only. The test replaces compadd, which receives all offered
// words, by a function that prints them.
func TestZsh(t *testing.T) {
	const ask = `
		zmodload zsh/zpty zsh/zselect
		script=$1 said=$2; shift 2
		zpty -b shell zsh --no-rcs --interactive
		{
			zpty -w shell 'PS1=; autoload -Uz compinit; compinit -u -D; source '$script
			zpty -w shell 'bindkey "^I" complete-word; zstyle ":completion:*" completer _complete; LISTMAX=0'
			zpty -w shell 'compadd() { [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] && { builtin compadd "$@"; return }; typeset -a found; builtin compadd -O found "$@"; for f in $found; do print -r -- $f; done >>'$said'; builtin compadd "$@" }'
			zpty -w shell 'asked() { zle complete-word; BUFFER=; print end >>'$said'; }; zle -N asked; bindkey "^X" asked'
			integer n=0
			for line; do
				zpty -w -n shell "$line"$'\C-X'
				((n++))
				until [[ -e $said ]] && (($(grep -c '^end$' $said) == n)); do zselect -t 5; done
			done
		} always { zpty -d shell }
		cat $said`
	testShell(t, "zsh", ask, "--no-rcs", "-s")
}

func TestShellsNotKnown(t *testing.T) {
	if err := Completion(os.Stdout, "tcsh", table); err == nil || !strings.Contains(err.Error(), `"tcsh"`) {
		t.Errorf("tcsh: %v", err)
	}
}
