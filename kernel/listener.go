package kernel

import (
	"cmp"
	"net/netip"
)

// Listener is a socket of this host that takes connections or datagrams, of a program other than svcproxy.
type Listener struct {
	Addr    netip.Addr // unspecified: all addresses of its family
	V6Only  bool       // Addr is "::" and does not take IPv4
	Link    string     // the socket is bound to this link; "" if it is to none
	Port    uint16
	Proto   Proto
	Program string // for people: "sshd (pid 812)"; what is known of it if that is not
}

// Compare orders listeners by protocol, port and address.
func (l Listener) Compare(o Listener) int {
	return cmp.Or(cmp.Compare(l.Proto, o.Proto), cmp.Compare(l.Port, o.Port), l.Addr.Compare(o.Addr),
		cmp.Compare(l.Link, o.Link), cmp.Compare(l.Program, o.Program))
}
