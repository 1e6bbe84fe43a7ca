package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/convert"
)

// importCommand writes a services file from the configuration of another load balancer.
type importCommand struct {
	local
	from     string
	live     bool
	strict   bool
	write    string
	takeover takeover
}

// Import is the command import.
func Import(e *Env) cli.Command {
	c := &importCommand{local: local{Env: e}}
	return cli.Command{
		Name: "import", Args: "[FILE]", Short: "write services.toml from what another load balancer has",
		Long: `FILE is a configuration of keepalived, ldirectord or HAProxy, what ipvsadm-save -n prints,
or Kubernetes objects; - is standard input. --live reads the kernel's virtual servers
instead. The services go to standard output. What has no counterpart is a comment
in its place, and a line on standard error. Then it prints the steps of a take-over in which
no connection ends; for keepalived also those of the way back. Secrets of health checks are
left out and named. Only its owner can read a file that --write makes. An included file
must be readable by all who may write the file that includes it.`,
		Examples: []string{"svcproxy import /etc/keepalived/keepalived.conf",
			"svcproxy import --live --write /etc/svcproxy/services.d/imported.toml"},
		Exits: []cli.Exit{
			{Code: cli.Failed, When: "nothing is imported, or not all limits of who may connect; with --strict: " +
				"or not all else"},
			{Code: cli.Config, When: "FILE is not valid, or of no known format"},
		},
		Flags: c.flags, Common: configFlag, Run: c.run,
	}
}

// anyFormat lets Detect find the format.
const anyFormat = "auto"

func (c *importCommand) flags(fs *pflag.FlagSet) {
	c.flag(fs)
	words := []string{anyFormat}
	for _, f := range convert.Formats() {
		words = append(words, string(f))
	}
	fs.StringVar(&c.from, "from", anyFormat, "`FORMAT` of FILE: "+strings.Join(words, ", "))
	cli.Offer(fs, "from", words...)
	fs.BoolVar(&c.live, "live", false, "read the kernel's virtual servers; needs root")
	fs.BoolVar(&c.strict, "strict", false, "exit with 1 if something has no counterpart")
	fs.StringVar(&c.write, "write", "", "write the services to a new `FILE`, which only user svcproxy may read, and "+
		"beside it keepalived.conf without virtual servers, if keepalived moves VIPs")
}

// imported is the answer of import in JSON. Fields are only ever added.
type imported struct {
	Services int            `json:"services"`
	Document string         `json:"document"` // the services file
	Notes    []importedNote `json:"notes"`    // what has no counterpart
	Steps    []string       `json:"steps"`    // what to start and stop, in order
	Back     []string       `json:"back"`     // and what gives the node back to the other program, if that is known
}

type importedNote struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Service string `json:"service,omitempty"` // its DisplayName
	Message string `json:"message"`
	Changes bool   `json:"changes"` // traffic would flow otherwise than it did
	Danger  string `json:"danger"`  // what is lost: who may connect, what servers see, lost features, irrelevant
}

func (c *importCommand) run(ctx context.Context, args []string) error {
	if err := c.valid(); err != nil {
		if usage, ok := errors.AsType[*cli.Error](err); ok && isPath(string(c.output)) {
			usage.Hint = "to write a file: --write " + string(c.output)
		}
		return err
	}
	r, err := c.read(ctx, args)
	if err != nil {
		return err
	}
	if err := c.deliver(r); err != nil {
		return err
	}
	if len(r.Services) == 0 {
		nothing := errors.New("there is nothing to import: none of its virtual servers can be a service")
		return &cli.Error{Code: cli.Failed, Err: nothing, Hint: nothingHint(r)}
	}
	if r.Widens() {
		return cli.Errorf(cli.Failed, "write those of each service into its loadBalancerSourceRanges",
			"limits of who may connect are not imported, so --write writes nothing")
	}
	if c.strict && len(r.Notes) > 0 {
		return &cli.Error{Code: cli.Failed}
	}
	return nil
}

// nothingHint says where to look if an import has no services.
func nothingHint(r convert.Result) string {
	switch {
	case len(r.Notes) > 0:
		return "the lines above say what was left out"
	case r.VRRP != nil:
		return "this keepalived moves addresses only"
	}
	return "is it the right file? --from says its format, --live reads the kernel's virtual servers"
}

// isPath reports whether the value of --output looks like the name of a file, as other programs take it.
func isPath(value string) bool {
	return strings.Contains(value, "/") || strings.HasSuffix(value, ".toml")
}

func (c *importCommand) read(ctx context.Context, args []string) (convert.Result, error) {
	switch {
	case c.live && len(args) > 0:
		return convert.Result{}, cli.Errorf(cli.Usage, "", "--live reads the kernel: leave out %s", args[0])
	case c.live:
		return c.readKernel(ctx)
	case c.from != anyFormat && !slices.Contains(convert.Formats(), convert.Format(c.from)):
		return convert.Result{}, cli.Errorf(cli.Usage, "", "format %q: want %s or one of %v", c.from, anyFormat,
			convert.Formats())
	case len(args) != 1:
		return convert.Result{}, cli.Errorf(cli.Usage, "", "want one FILE, - for standard input, or --live")
	}
	f, err := c.open(args[0])
	if err != nil {
		return convert.Result{}, err
	}
	format := convert.Format(c.from)
	if c.from == anyFormat {
		if format = convert.Detect(f.Data); format == "" {
			return convert.Result{}, cli.Errorf(cli.Config, "say its format with --from", "%s: cannot tell what it is", f.Name)
		}
	}
	if s, err := c.load(); err == nil && format == convert.Kubernetes {
		f.Proxy = s.Config.APIServer.ProxyName
	}
	c.takeover.from = format
	r, err := convert.Read(format, f, include{guarded: true, in: c.In}.open)
	if err != nil {
		return r, &cli.Error{Code: cli.Config, Err: err}
	}
	c.takeover.vrrp = r.VRRP
	return r, nil
}

// maxImport bounds a configuration, in bytes.
const maxImport = 64 << 20

// standardInput is its name in messages.
const standardInput = "standard input"

func (c *importCommand) open(name string) (convert.File, error) {
	in := c.In
	if name == "-" {
		name = standardInput
	} else {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			return convert.File{}, fmt.Errorf("%s: is not there", name)
		}
		if err != nil {
			return convert.File{}, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxImport+1))
	if err == nil && len(data) > maxImport {
		err = fmt.Errorf("%s: longer than %d MiB", name, maxImport>>20)
	}
	host, _ := os.Hostname()
	host, _, _ = strings.Cut(host, ".")
	return convert.File{Name: name, Data: data, Dir: absoluteDir(name), Instance: host}, err
}

// readKernel reads the virtual servers that the kernel has, whoever made them.
func (c *importCommand) readKernel(ctx context.Context) (convert.Result, error) {
	c.takeover.from = runs(machine.Processes())
	if err := c.findVRRP(); err != nil {
		return convert.Result{}, err
	}
	s, err := c.load()
	if err != nil {
		return convert.Result{}, err
	}
	k, err := s.Open(ctx, s.Config.Names())
	if err != nil {
		return convert.Result{}, err
	}
	defer k.Close()
	have, err := k.Read(ctx)
	if err != nil {
		return convert.Result{}, err
	}
	r, err := convert.Read(convert.IPVSAdm, convert.File{Name: "the kernel", Data: []byte(saved(have))}, nil)
	if err != nil {
		return r, fmt.Errorf("the kernel's virtual servers: %w", err)
	}
	return r, nil
}

// findVRRP looks at the keepalived that runs. One that only moves addresses is no predecessor: it goes on,
// and has its VIPs.
func (c *importCommand) findVRRP() error {
	running := keepaliveds()
	if c.takeover.from == convert.Keepalived && !slices.ContainsFunc(running, func(k keepalived) bool {
		return k.serves
	}) && len(running) > 0 {
		c.takeover.from = convert.IPVSAdm
		return nil
	}
	for _, k := range running {
		r, err := k.read()
		if err != nil {
			if failed, ok := errors.AsType[*cli.Error](err); ok { // to stop it would end connections
				failed.Hint = "correct its configuration: the steps of a take-over depend on whether it moves addresses by VRRP"
			}
			return err
		}
		if r.VRRP != nil {
			c.takeover.vrrp = r.VRRP
		}
	}
	return nil
}

// saved is what ipvsadm-save -n would print.
func saved(o kernel.Observed) string {
	var b strings.Builder
	for _, v := range o.Virtuals {
		fmt.Fprintln(&b, v)
	}
	for _, r := range o.Reals.All() {
		fmt.Fprintln(&b, r)
	}
	return b.String()
}

// deliver prints the services, or writes them, and what was left out.
func (c *importCommand) deliver(r convert.Result) error {
	settings, _ := config.Read(c.config) // the defaults, where there is none or it is not valid
	document := r.Document()
	var steps, back []string
	if len(r.Services) == 0 || c.write != "" && r.Widens() { // the daemon would serve a file of services.d at once
		steps = []string{} // nothing is taken over
	} else {
		c.takeover.of(settings, c.config.Path(), r.Services)
		if c.write != "" {
			if err := c.writeFiles(document); err != nil {
				return err
			}
		}
		steps, back = c.takeover.steps()
	}
	if c.output == "json" {
		answer := imported{Services: len(r.Services), Document: document, Notes: []importedNote{}, Steps: steps,
			Back: append([]string{}, back...)}
		for _, n := range r.Notes {
			answer.Notes = append(answer.Notes, importedNote{n.Origin.File, n.Origin.Line,
				sources.Problem{Service: n.Service, Origin: n.Origin}.DisplayName(), n.Message,
				n.Danger > convert.Irrelevant, n.Danger.String()})
		}
		return c.encode(answer)
	}
	c.printNotes(r.Notes)
	for i, step := range steps {
		fmt.Fprintf(c.Err, "svcproxy: step %d: %s\n", i+1, step)
	}
	for i, step := range back {
		fmt.Fprintf(c.Err, "svcproxy: way back, step %d: %s\n", i+1, step)
	}
	if c.write != "" && len(r.Services) > 0 {
		if r.Widens() {
			return nil
		}
		_, err := fmt.Fprintf(c.Out, "ok: %s\n", sources.Count(len(r.Services), "service"))
		return err
	}
	_, err := io.WriteString(c.Out, document)
	return err
}
