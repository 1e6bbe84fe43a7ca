package iptables

import (
	"crypto/sha256"
	"encoding/base32"
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// portName returns kube-proxy's name of a service port, which is in comments and in the
// hashes of chains: namespace/name, and :port if the port has a name. All three are DNS
// labels, so a comment with the name needs no escapes and fits into 256 bytes.
func portName(s *sources.Service, p *sources.Port) string {
	name := s.FullName()
	if p.Name != "" {
		name += ":" + p.Name
	}
	return name
}

// hashOf returns the hash in the name of a chain: the first 16 characters of the base32
// form of the SHA-256 sum of some texts.
func hashOf(texts ...string) string {
	text := make([]byte, 0, 128)
	for _, t := range texts {
		text = append(text, t...)
	}
	sum := sha256.Sum256(text)
	return base32.StdEncoding.EncodeToString(sum[:kernel.HashLen*5/8])
}

// portHash is in the chains of a service port.
func portHash(name string, p kernel.Proto) string { return hashOf(name, p.String()) }

// endpointHash is in the chain of an endpoint, and in the name of its list of clients.
func endpointHash(name string, p kernel.Proto, at netip.AddrPort) string {
	return hashOf(name, p.String(), at.String())
}
