package kernel

import (
	"net/netip"
	"time"
)

// Asked is a client's TCP connection, as far as its endpoint is concerned.
type Asked struct {
	Key      RealKey // where the client sends to, and which endpoint gets it
	Client   netip.AddrPort
	Answered bool          // if not, nothing came back since the client's first packet, a SYN
	Left     time.Duration // until it is forgotten, unless another packet comes
}
