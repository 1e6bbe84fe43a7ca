package commands

import (
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/daemon"
)

// remote is what all commands share that ask the running svcproxy.
type remote struct{ *Env }

// client asks at the socket that the configuration names. If the configuration is
// refused its runtimeDir still counts: the daemon runs with the last good one.
func (r remote) client() control.Client {
	loaded, _ := config.Read(r.config)
	return control.Client{Socket: daemon.Socket(loaded.Config.RuntimeDir)}
}
