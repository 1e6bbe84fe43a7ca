package commands

import (
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/daemon"
)

// remote is what all commands share that ask the running svcproxy.
type remote struct{ *Env }

// noDaemon is the exit code of all of them if no daemon answers.
var noDaemon = cli.Exit{Code: cli.NoDaemon, When: "svcproxy does not run, or does not answer"}

// client asks at the socket that the configuration names. If the configuration is
// refused its runtimeDir still counts: the daemon runs with the last good one.
func (r remote) client() control.Client {
	loaded, _ := config.Read(r.config)
	return control.Client{Socket: daemon.Socket(loaded.Config.RuntimeDir)}
}
