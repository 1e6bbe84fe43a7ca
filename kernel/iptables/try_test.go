package iptables

import (
	"errors"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// Rules that are taken leave no trace. One that is refused is named.
func TestTry(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		nat := kernel.Chain{Family: kernel.IPv4, Table: "nat", Name: "TRY", Rules: "-p tcp -m tcp --dport 80 -j REDIRECT --to-ports 8080\n-j MARK --set-xmark 0x4000/0x4000"}
		filter := kernel.Chain{Family: kernel.IPv6, Table: "filter", Name: "TRY", Rules: "-j REJECT --reject-with icmp6-port-unreachable"}
		if err := b.Try(t.Context(), []kernel.Chain{nat, filter}); err != nil {
			t.Fatal(err)
		}
		nat.Rules += "\n-m no-such-match --x 1 -j ACCEPT"
		err := b.Try(t.Context(), []kernel.Chain{nat})
		var missing *kernel.MissingError
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), "no-such-match") {
			t.Errorf("error %v", err)
		}
		if after := b.save(t, "iptables") + b.save(t, "ip6tables"); strings.Contains(after, "TRY") {
			t.Errorf("afterwards:\n%s", after)
		}
	})
}
