package explain_test

import (
	"testing"

	"github.com/svcproxy/svcproxy/kernel/trace"
)

func mustPacket(t *testing.T) trace.Packet {
	t.Helper()
	p, err := trace.ParsePacket("tcp 192.0.2.9 -> 10.96.0.20:80 in eth0")
	if err != nil {
		t.Fatal(err)
	}
	return p
}
