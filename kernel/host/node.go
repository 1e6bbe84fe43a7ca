package host

import (
	"errors"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/link"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// ReadNode reads the node's addresses and default routes. It needs no capability.
func ReadNode(names kernel.Names) (n kernel.Node, err error) {
	links, err := link.Open(new(nl.Dialer))
	if err != nil {
		return kernel.Node{}, err
	}
	defer func() { err = errors.Join(err, links.Close()) }()
	_, _, n, err = links.Read(names)
	return n, err
}
