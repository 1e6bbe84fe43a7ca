package iptables

import (
	"context"
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

// A lock that is held for a while is waited for. It is no reason to think that the machine lacks something.
func TestTryWhileLocked(t *testing.T) {
	for held, fails := range map[int]bool{2: false, 100: true} {
		runs := 0
		tt, _ := fake(func(_ context.Context, _ string, argv ...string) (string, error) {
			if runs++; runs <= held {
				return "", &ExitError{Argv: argv, Code: 4, Stderr: "Another app is currently holding the xtables lock. Stopped waiting after 5s."}
			}
			return "", nil
		})
		err := tt.Try(t.Context(), []kernel.Chain{{Family: kernel.IPv4, Table: "filter", Name: "TRY", Rules: "-j DROP"}})
		var missing *kernel.MissingError
		if (err != nil) != fails || errors.As(err, &missing) {
			t.Errorf("held %d times: %v after %d runs", held, err, runs)
		}
	}
}
