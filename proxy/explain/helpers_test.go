package explain_test

import (
	"testing"

	"github.com/svcproxy/svcproxy/kernel/packet"
)

func mustPacket(t *testing.T) packet.Packet {
	t.Helper()
	p, err := packet.ParsePacket("tcp 192.0.2.9 -> 10.96.0.20:80 in eth0")
	if err != nil {
		t.Fatal(err)
	}
	return p
}
