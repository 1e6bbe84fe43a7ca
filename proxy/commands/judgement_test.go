package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"golang.org/x/tools/txtar"

	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/daemon"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// sample is a file of testdata: of services, or a configuration.
type sample struct {
	where         string
	data          []byte
	configuration bool
	name          string
}

// TestCheckAndRunAgree gives every services file and configuration of the tests to check and to the parts of the daemon
// that judge them, in one mode after the other. Both must refuse the same, warn of the same and serve the same number of services.
func TestCheckAndRunAgree(t *testing.T) {
	services, configurations := 0, 0
	for _, s := range samples(t) {
		if s.configuration {
			configurations++
			agree(t, s, s.data, []byte("services = {}\n"))
			continue
		}
		mode := []string{"ipvs", "iptables", "userspace"}[services%3]
		services++
		agree(t, s, fmt.Appendf(nil, "mode = %q\nstateDir = %q\n", mode, t.TempDir()), s.data)
	}
	if services < 150 || configurations < 50 {
		t.Errorf("only %d services files and %d configurations", services, configurations)
	}
}

// TestEmptiedFile: a file that had services in the last run and is empty now is refused by check. The daemon goes
// on with what it had.
func TestEmptiedFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "services.toml")
	argv := place(t, dir, "svcproxy.toml", fmt.Appendf(nil, "stateDir = %q\n[sources.file]\npaths = [%q]\n", dir, name),
		[]byte("[services.web]\nvips = [\"198.51.100.80\"]\nport = 80\nkeepClientAddress = false\n"))[:1]
	keep(t, argv)
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	a, b := byCheck(t, argv), byDaemon(t, argv)
	if said := strings.Join(a.said, "\n"); !a.refused || !strings.Contains(said, "is empty and had") {
		t.Errorf("check: refused %t: %s", a.refused, said)
	}
	if b.services != 1 {
		t.Errorf("the daemon serves %d services: %q", b.services, b.said)
	}
}

// keep stores the content of a valid run as its last good one.
func keep(t *testing.T, argv []string) {
	t.Helper()
	c, err := config.Start(config.Options{Flags: parsed(t, argv), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c.Keep()
	s, err := daemon.Load(parsed(t, argv), "1")
	if err != nil {
		t.Fatal(err)
	}
	firstTable(t, s, argv[1:])
}

// verdict is what a program says of files.
type verdict struct {
	refused  bool
	services int
	said     []string // sorted
}

func agree(t *testing.T, s sample, configuration, services []byte) {
	t.Helper()
	name := "svcproxy.toml"
	if s.configuration {
		name = s.name
	}
	argv := place(t, t.TempDir(), name, configuration, services)
	a, b := byCheck(t, argv), byDaemon(t, argv)
	if a.refused != b.refused || a.services != b.services || !slices.Equal(a.said, b.said) {
		t.Errorf("%s: check and the daemon differ\ncheck  refused %t, %d services:\n\t%s\ndaemon refused %t, %d services:\n\t%s", s.where,
			a.refused, a.services, strings.Join(a.said, "\n\t"), b.refused, b.services, strings.Join(b.said, "\n\t"))
	}
}

// place writes a configuration and services into a folder, and returns the arguments of check that name them.
func place(t *testing.T, dir, name string, configuration, services []byte) []string {
	t.Helper()
	for file, data := range map[string][]byte{name: configuration, "services.toml": services} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--config=" + filepath.Join(dir, name), filepath.Join(dir, "services.toml")}
}

func parsed(t *testing.T, argv []string) *config.Flags {
	t.Helper()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags := config.AddFlags(fs)
	if err := fs.Parse(argv); err != nil {
		t.Fatal(err)
	}
	return flags
}

// byCheck asks the command.
func byCheck(t *testing.T, argv []string) verdict {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	e := &Env{Out: out, Err: io.Discard, Version: "1"}
	p := cli.Program{Name: "svcproxy", Flags: e.Flags, Near: func(string, []string) string { return "" }, Commands: []cli.Command{Check(e)}}
	failed := p.Run(t.Context(), append([]string{"check", "-o", "json"}, argv...), out)
	data, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	var answer checked
	if err := json.Unmarshal(data, &answer); err != nil {
		return verdict{refused: true, said: sorted(cli.Lines(failed))} // the configuration is refused
	}
	return verdict{failed != nil && cli.Code(failed) != cli.Degraded, answer.Services, sorted(answer.Problems, answer.Warnings)}
}

// byDaemon asks what a run asks before it opens the kernel, and merges as its loop does.
func byDaemon(t *testing.T, argv []string) verdict {
	t.Helper()
	c, err := config.Start(config.Options{Flags: parsed(t, argv), Log: slog.New(slog.DiscardHandler)})
	s, _ := daemon.Load(parsed(t, argv), "1")
	if err == nil {
		err = s.Supported()
	}
	if err != nil {
		return verdict{refused: true, said: sorted(cli.Lines(err), s.Warnings)}
	}
	here, _ := host.ReadNode(s.Config.Names())
	s = s.AsLastRun()
	table, warnings, refused := firstTable(t, s, argv[1:])
	var m sources.Merger
	merged := m.Merge(s.Facts(here), nil, c.Now().Static, table)
	v := verdict{refused: refused != nil, said: sorted(cli.Lines(refused), c.Now().Warnings, warnings)}
	if refused == nil {
		v.services = merged.Services.Len()
		// A run says of programs by the condition checkBlind.
		v.said = sorted(v.said, s.ModeDoubts(merged.Table, here), s.ProgramDoubts(merged.Table, len(argv) > 1))
	}
	for _, p := range slices.Concat(merged.Problems, merged.Doubts) {
		v.said = sorted(v.said, []string{p.Error()})
	}
	return v
}

// firstTable is what the file source emits first for some files, else for those of the configuration, with its warnings.
func firstTable(t *testing.T, s daemon.Setup, paths []string) (table sources.Table, warnings []string, refused error) {
	t.Helper()
	o := s.Files()
	if o.Watch = false; len(paths) > 0 {
		o.Paths, o.Optional = paths, false
	}
	files, err := file.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := files.Watch(ctx, func(first sources.Table, err error) {
		table, refused = first, err
		cancel()
	}); err != nil {
		t.Fatal(err)
	}
	return table, files.Warnings(), refused
}

// hostFact is what both say of VIPs that depend on this node's addresses: check before they are withheld, the daemon after.
var hostFact = regexp.MustCompile(`^(.*?: )(?:left out(?: in part)?: )?(?:VIP|external IP) (\S+) is (?:this (?:host|node)'s default gateway|also an endpoint).*`)

// sorted joins lists of lines. A line that is said twice counts once. What a refusal means for a run is left out.
func sorted(lists ...[]string) []string {
	all := slices.Concat(lists...)
	for i, line := range all {
		line = hostFact.ReplaceAllString(line, "$1 $2 depends on this node")
		all[i] = strings.TrimSuffix(line, "; nothing of this file is served until it is mended")
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// samples are the files below testdata, proxy and sources, alone and in archives.
func samples(t *testing.T) (all []sample) {
	t.Helper()
	for _, root := range []string{"../../testdata", "../../proxy", "../../sources", "../../packaging"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files := []txtar.File{{Name: filepath.Base(path)}}
			switch filepath.Ext(path) {
			case ".txtar":
				a, err := txtar.ParseFile(path)
				if err != nil {
					return err
				}
				files = a.Files
			case ".toml", ".yaml":
				if files[0].Data, err = os.ReadFile(path); err != nil {
					return err
				}
			default:
				return nil
			}
			for _, f := range files {
				if s, ok := sampleOf(f); ok {
					s.where = path + ": " + f.Name
					all = append(all, s)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// sampleOf recognizes services and configurations by their content.
func sampleOf(f txtar.File) (sample, bool) {
	text := string(f.Data)
	switch {
	case strings.HasSuffix(f.Name, ".yaml"):
		return sample{data: f.Data, configuration: true, name: "config.yaml"}, strings.Contains(text, "KubeProxyConfiguration")
	case !strings.HasSuffix(f.Name, ".toml"):
		return sample{}, false
	case f.Name == "svcproxy.toml":
		return sample{data: f.Data, configuration: true, name: "svcproxy.toml"}, true
	}
	return sample{data: f.Data}, strings.Contains(text, "services") || f.Name == "services.toml"
}
