//go:build !noapiserver

package apiserver

import (
	"context"
	"net/http"
	"sync"

	"k8s.io/client-go/transport"
)

// making guards transport.DialerStopCh, which is a variable of the whole process.
var making sync.Mutex

// newTransport makes a transport that is garbage once its access is not used and life has ended. client-go's own
// would stay until the process ends, one more with each renewal: client-go keeps each in a map by its dialer, of which
// every access has its own, and never stops the goroutines that read certificate files again.
func newTransport(life context.Context, c *transport.Config) (http.RoundTripper, error) {
	if c.Proxy == nil {
		c.Proxy = http.ProxyFromEnvironment // the default; client-go keeps no transport whose proxy is given
	}
	making.Lock()
	defer making.Unlock()
	defer func(stop <-chan struct{}) { transport.DialerStopCh = stop }(transport.DialerStopCh)
	transport.DialerStopCh = life.Done()
	return transport.New(c)
}
