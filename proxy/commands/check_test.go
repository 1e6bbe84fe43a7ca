package commands

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

func TestNodeWarning(t *testing.T) {
	broken := errors.New("listing links: no buffer space available")
	lacks := fmt.Errorf("opening links: %w", &kernel.MissingError{What: "the kernel has no netlink"})
	said := []string{"cannot read this node's addresses and routes, so the services are not compared with them: listing links: no buffer space available"}
	for _, c := range []struct {
		name string
		err  error
		root bool
		want []string
	}{
		{"all is read", nil, true, nil},
		{"root on the node", broken, true, said},
		{"a user", broken, false, nil},
		{"no kernel to read", lacks, true, nil},
	} {
		if got := nodeWarning(c.err, c.root); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
