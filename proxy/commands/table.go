package commands

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// tableCommand sets, lists, shows and removes the tables that programs set.
type tableCommand struct {
	remote
	output
	given *pflag.FlagSet
	match string
	fresh bool
	wait  bool
}

// Table is the command table.
func Table(e *Env) cli.Command {
	c := &tableCommand{remote: remote{e}}
	return cli.Command{
		Name: "table", Args: "VERB", Short: "set, list, show and remove tables of services that programs make",
		Long: `VERB is set NAME FILE, list, show NAME or remove NAME.

A table is a services file that a program sets, in TOML or JSON; - is standard input. It is
checked as a file is, and refused or taken as a whole. The running svcproxy keeps it in
stateDir. A VIP that a service of another file or table has is not taken from it.
With --if-match a change is made only if the table has the digest that list shows, and with
--new only if there is none, so that two writers do not overwrite each other.
Only root may set and remove tables, unless svcproxy.toml has control.tables = true: who may
can take any free VIP, and run the programs of health.execDirs as checks.`,
		Examples: []string{"svcproxy table set web web.toml --wait", "svcproxy table list", "svcproxy table remove web"},
		Exits: []cli.Exit{
			{Code: cli.Config, When: "set: the table is not valid; nothing has changed"},
			{Code: cli.Degraded, When: "with --wait: a part of it is not served"},
			{Code: cli.Permission, When: "only root may do that"},
			noDaemon,
		},
		Flags: c.flags, Common: configFlag, Run: c.run,
	}
}

func (c *tableCommand) flags(fs *pflag.FlagSet) {
	c.flag(fs)
	c.given = fs
	fs.StringVar(&c.match, "if-match", "", "set and remove: only if the table has this `DIGEST`")
	fs.BoolVar(&c.fresh, "new", false, "set: only if there is no table of this name")
	fs.BoolVar(&c.wait, "wait", false, "set and remove: return when the change is served")
}

func (c *tableCommand) run(ctx context.Context, args []string) error {
	if err := c.valid(); err != nil {
		return err
	}
	verb, wants := "", map[string]int{"set": 3, "list": 1, "show": 2, "remove": 2}
	if len(args) > 0 {
		verb = args[0]
	}
	if n, known := wants[verb]; !known || len(args) != n {
		return cli.Errorf(cli.Usage, "", "table wants set NAME FILE, list, show NAME or remove NAME, have %s",
			cli.Given(args))
	}
	changes := verb == "set" || verb == "remove"
	switch {
	case c.match == "" && c.given.Changed("if-match"):
		return cli.Errorf(cli.Usage, "svcproxy table list has it", "--if-match wants a digest")
	case !changes && (c.match != "" || c.wait), verb != "set" && c.fresh:
		return cli.Errorf(cli.Usage, "", "table %s does not take these flags", verb)
	case verb == "list":
		return c.list(ctx)
	case verb == "show":
		return c.show(ctx, args[1])
	}
	return c.change(ctx, args[1], args[2:])
}

// change sets a table from a file, or removes it without one.
func (c *tableCommand) change(ctx context.Context, name string, from []string) error {
	want := file.Expect{Digest: c.match, Absent: c.fresh}
	var done control.TableSet
	var err error
	if len(from) == 0 {
		done, err = c.client().RemoveTable(ctx, name, want, c.wait)
	} else {
		var text []byte
		if text, err = c.text(from[0]); err == nil {
			done, err = c.client().SetTable(ctx, name, text, want, c.wait)
		}
	}
	if err != nil {
		return err
	}
	for _, w := range done.Warnings {
		c.warn(w)
	}
	switch t := done.Table; {
	case c.output == "json":
		err = c.encode(done)
	case t.Digest == "":
		_, err = fmt.Fprintf(c.Out, "table %s: removed\n", t.Name)
	default:
		_, err = fmt.Fprintf(c.Out, "table %s: %s, digest %s\n", t.Name, sources.Count(t.Services, "service"), t.Digest)
	}
	if err == nil && done.Reloaded != nil {
		err = done.Reloaded.Err()
	}
	return err
}

// text reads a file, or standard input.
func (c *tableCommand) text(name string) ([]byte, error) {
	from := c.In
	if name != stdin {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, file.MaxSize+1))
	if err == nil && len(text) > file.MaxSize {
		err = fmt.Errorf("%s: longer than %d MiB", name, file.MaxSize>>20)
	}
	return text, err
}

func (c *tableCommand) list(ctx context.Context) error {
	all, err := c.client().Tables(ctx)
	switch {
	case err != nil:
		return err
	case c.output == "json":
		return c.encode(all)
	case len(all) == 0:
		_, err = fmt.Fprintln(c.Out, "no tables")
		return err
	}
	rows := screen.Columns{}
	rows.Heading("NAME", "SERVICES", "BYTES", "CHANGED", "DIGEST")
	for _, t := range all {
		if t.Error != "" {
			rows.Row(screen.Cell{Text: t.Name}, screen.Cell{Text: "-"}, screen.Cell{Text: "-"}, screen.Cell{Text: "-"},
				screen.Cell{Text: screen.Clean(t.Error), Style: screen.Bad})
			continue
		}
		rows.Row(screen.Cell{Text: t.Name}, screen.Cell{Text: fmt.Sprint(t.Services)}, screen.Cell{Text: fmt.Sprint(t.Bytes)},
			screen.Cell{Text: screen.Age(time.Since(t.Changed)) + " ago"}, screen.Cell{Text: t.Digest})
	}
	width, _ := screen.Size(c.Out)
	_, err = fmt.Fprintln(c.Out, strings.Join(rows.Lines(width, screen.Colours(c.Out)), "\n"))
	return err
}

// tableText is a table in JSON. Fields are only ever added.
type tableText struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Text   string `json:"text"` // TOML
}

func (c *tableCommand) show(ctx context.Context, name string) error {
	text, digest, err := c.client().TableText(ctx, name)
	if err == nil && c.output == "json" {
		return c.encode(tableText{name, digest, string(text)})
	}
	if err == nil {
		_, err = c.Out.Write(text)
	}
	return err
}
