package host

import "github.com/svcproxy/svcproxy/kernel/sockdiag"

// Sockets tell which programs of this host listen.
type Sockets = sockdiag.Sockets
