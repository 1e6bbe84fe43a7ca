package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/doctor"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/report"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/redact"
)

// reportCommand writes what a bug report needs.
type reportCommand struct {
	*Env
	write string
}

// Report is the command report.
func Report(e *Env) cli.Command {
	c := &reportCommand{Env: e}
	return cli.Command{
		Name: "report", Short: "write one archive with what a bug report needs, without secrets",
		Long: `The archive has only texts: versions, the configuration without comments and secrets, status,
events, metrics, the kernel's state, the findings of doctor, and the log. Its contents are
listed before it is written. Only its owner can read the file, and it never replaces another.
What may not be read is left out and named. Look through it before you give it away: it has
the addresses and names of services.`,
		Examples: []string{"svcproxy report", "svcproxy report --write report.tar.gz"},
		Exits:    []cli.Exit{{Code: cli.Failed, When: "the archive could not be written, or the file is there already"}},
		Flags:    c.flags, Common: configFlag, Run: c.run,
	}
}

func (c *reportCommand) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.write, "write", "", "write to a new `FILE`, or - for standard output; without it one in this "+
		"folder, named after node and time")
}

func (c *reportCommand) run(ctx context.Context, _ []string) error {
	now := time.Now()
	g := gathering{examination: newExamination(c.Env)}
	g.report.Time = now
	g.gather(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	g.report.Name = fmt.Sprintf("svcproxy-report-%s-%s", g.setup.Node(), now.UTC().Format("20060102-150405"))
	name := c.write
	if name == "" {
		name = g.report.Name + ".tar.gz"
	}
	if name == "-" {
		fmt.Fprint(c.Err, g.report.Contents())
		return g.report.Write(c.Out)
	}
	fmt.Fprintf(c.Out, "%s will have, without secrets:\n%s", name, g.report.Contents())
	if err := writeNew(name, 0o600, g.report.Write); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.Out, "ok: written; look through it before you give it away\n")
	return err
}

// writeNew writes a file that does not exist yet. If that fails, as on a full disk, there is none: half a
// file must not be taken for the whole.
func writeNew(name string, mode os.FileMode, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return cli.Errorf(cli.Failed, "choose another file with --write", "%s is there already", name)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// gathering collects the texts of a report.
type gathering struct {
	*examination
	report  report.Report
	secrets redact.Secrets
}

func (g *gathering) gather(ctx context.Context) {
	f := g.facts(ctx)
	answer := doctor.Examine(f)
	g.know(ctx)
	g.report.Add("doctor.txt", "what doctor found", answer.String())
	g.json("doctor.json", "the same as JSON", answer)
	g.json("machine.json", "modules, kernel parameters, links, counters, folders, unit", f.Machine)
	g.report.Add("versions.txt", "svcproxy, kernel, distribution, tools", g.versions(ctx))
	if f.Kernel != nil {
		g.report.Add("kernel.txt", "virtual servers, sets, rules, addresses: the reading of svcproxy", f.Kernel.String())
	}
	g.daemon(ctx)
	g.configuration()
	g.log(ctx)
	for _, u := range answer.Unchecked {
		g.report.Lacks(u.What, errors.New(u.Why))
	}
	g.report.Redact(&g.secrets)
}

// know collects the secrets of the configuration, and of all services: of the files, and of what is served.
func (g *gathering) know(ctx context.Context) {
	g.secrets.Know(g.setup.Config.Notify.Secrets()...)
	g.secrets.KnowIn(g.setup.Static.Services.Slice())
	if g.f.Fronts != nil {
		g.secrets.KnowIn(g.f.Fronts.Table.Services.Slice())
	}
	for _, source := range []string{sources.Static, sources.Files} {
		if served, err := g.client.Table(ctx, source); err == nil {
			g.secrets.KnowIn(served.Services)
		}
	}
}

func (g *gathering) json(name, about string, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		g.report.Lacks(name, err)
		return
	}
	g.report.Add(name, about, string(text))
}

// daemon adds what the running svcproxy knows.
func (g *gathering) daemon(ctx context.Context) {
	if g.f.Status == nil {
		if g.f.NoAnswer != "" {
			g.report.Lacks("status, events and metrics", errors.New(g.f.NoAnswer))
		}
		return
	}
	g.json("status.json", "services, endpoints, health, problems", g.f.Status)
	if text, err := g.client.Metrics(ctx); err != nil {
		g.report.Lacks("metrics", err)
	} else {
		g.report.Add("metrics.txt", "the metrics of svcproxy", text)
	}
	var lines []byte
	err := g.client.Events(ctx, 0, false, func(e events.Event) error {
		line, err := json.Marshal(e)
		lines = append(append(lines, line...), '\n')
		return err
	})
	if err != nil {
		g.report.Lacks("events", err)
	}
	g.report.Add("events.jsonl", "the last events", string(lines))
}
