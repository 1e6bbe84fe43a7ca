package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"syscall"
)

// The types of ICMP messages that a ping has to do with.
const (
	echoRequest, echoReply     = 8, 0
	echoRequest6, echoReply6   = 128, 129
	protocolICMP, protocolICM6 = 1, 58
)

// ping sends one ICMP echo request. A datagram socket needs no capability, but the group must be in the sysctl
// net.ipv4.ping_group_range. Otherwise a raw socket needs CAP_NET_RAW.
func (a *attempt) ping() Result {
	protocol, request, reply := protocolICMP, byte(echoRequest), byte(echoReply)
	if a.target.Addr().Is6() {
		protocol, request, reply = protocolICM6, echoRequest6, echoReply6
	}
	// A raw socket's port is its protocol, which connect does not look at; IPv6 refuses another one.
	a.target = netip.AddrPortFrom(a.target.Addr(), 0)
	raw := false
	c, err := a.dial(syscall.SOCK_DGRAM, protocol)
	if errors.Is(err, syscall.EACCES) {
		raw = true
		c, err = a.dial(syscall.SOCK_RAW, protocol)
	}
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return result(Void, "ping needs CAP_NET_RAW or net.ipv4.ping_group_range")
	}
	if err != nil {
		return failure(err, "connect")
	}
	defer c.Close()
	want := echo(request, rand.Uint32(), rand.Uint64())
	if _, err := c.Write(want); err != nil {
		return failure(err, "send")
	}
	a.done("sent")
	defer a.done("ended")
	want[0] = reply
	return receive(c, func(datagram []byte) (Result, bool) {
		return Result{Outcome: OK}, isEcho(datagram, want, raw)
	})
}

// echo returns an echo request with a random token. The kernel fills in the checksum of ICMPv6, and the identifier
// on a datagram socket.
func echo(kind byte, id uint32, token uint64) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind, 0, 0, 0}, id) // identifier and sequence
	b = binary.BigEndian.AppendUint64(b, token)
	binary.BigEndian.PutUint16(b[2:], checksum(b))
	return b
}

// checksum returns the Internet checksum of a message of even length.
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// isEcho reports whether a datagram is the wanted reply. A raw IPv4 socket also delivers the IP header, and every
// ICMP message of that address.
func isEcho(datagram, want []byte, raw bool) bool {
	if raw && want[0] == echoReply {
		if len(datagram) < 20 || datagram[0]>>4 != 4 {
			return false
		}
		header := int(datagram[0]&15) * 4
		if header < 20 || header > len(datagram) {
			return false
		}
		datagram = datagram[header:]
	}
	// Type and code, then the sequence and the token: the kernel may have changed the identifier.
	return len(datagram) == len(want) && bytes.Equal(datagram[:2], want[:2]) && bytes.Equal(datagram[6:], want[6:])
}
