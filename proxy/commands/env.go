// Package commands is every command of svcproxy, one file each. main.go has the table.
//
// A command reads its flags, calls the packages that do the work, and prints. Some work
// on this node themselves (check, plan, cleanup); others ask the running svcproxy
// through its control socket (status, top, events, reload, drain).
package commands

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/screen"
)

// Env is what all commands of one invocation share.
type Env struct {
	In, Out *os.File
	Err     io.Writer // log lines, warnings and progress
	Version string

	config *config.Flags
}

// Flags adds the flags that every command accepts: those of the configuration.
func (e *Env) Flags(fs *pflag.FlagSet) { e.config = config.AddFlags(fs) }

func (e *Env) warn(line string) { fmt.Fprintf(e.Err, "svcproxy: warning: %s\n", screen.Clean(line)) }

func (e *Env) encode(v any) error {
	enc := json.NewEncoder(e.Out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// configFlag is the common flag that matters to most commands: where the
// configuration is.
var configFlag = []string{"config"}

// output is the flag --output of a command that prints text or JSON. "", without the
// flag, is text.
type output string

func (o *output) flag(fs *pflag.FlagSet) {
	fs.StringVarP((*string)(o), "output", "o", "text", "print in `FORMAT`: text or json")
	cli.Offer(fs, "output", "text", "json")
}

func (o output) valid() error {
	if o != "text" && o != "json" && o != "" {
		return cli.Errorf(cli.Usage, "", "output %q: want text or json", string(o))
	}
	return nil
}
