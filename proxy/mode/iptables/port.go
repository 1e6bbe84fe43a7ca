package iptables

import (
	"net/netip"
	"strconv"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// port is one service port in one family.
type port struct {
	*writer
	mode.Port
	name string
	hash string
}

// newPort names a port of a service.
func (w *writer) newPort(of mode.Port, number int) port {
	p := port{writer: w, Port: of, name: portName(of.Service, &of.Service.Ports[number])}
	p.hash = portHash(p.name, p.Proto)
	return p
}

// chain returns the full name of a chain of the port.
func (p *port) chain(k kernel.ChainKind) string { return p.Config.Names.Hashed(k, p.hash) }

// comment is the match with the port's name and more text.
func (p *port) comment(more string) string { return mode.Comment(p.name + more) }

// to matches packets to a front.
func (p *port) to(x *frontend.Front, why string) string {
	return "-d " + single(x.Key.Addr) + " " + p.dport(x.Key.Port, why)
}

// dport matches packets to a port of the protocol.
func (p *port) dport(number uint16, why string) string {
	proto := p.Proto.String()
	return "-p " + proto + " " + p.comment(why) + "-m " + proto + " --dport " + strconv.Itoa(int(number)) + " "
}

// single is an address as iptables-save prints it.
func single(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }
