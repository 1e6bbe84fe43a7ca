package host

import (
	"github.com/svcproxy/svcproxy/kernel/link"
	"github.com/svcproxy/svcproxy/kernel/sysctl"
)

// Paths asks this machine's kernel which way packets take, and for kernel parameters. It needs no
// capability.
type Paths struct {
	*link.Paths
	params *sysctl.Params
}

// OpenPaths opens them in the network namespace of the calling thread.
func OpenPaths() (*Paths, error) {
	p, err := link.OpenPaths()
	if err != nil {
		return nil, err
	}
	return &Paths{p, sysctl.Open(nil)}, nil
}

// Sysctl returns a kernel parameter, "" if this kernel lacks it or it cannot be read.
func (p *Paths) Sysctl(name string) string {
	read, err := p.params.Read([]string{name})
	if err != nil || len(read) == 0 {
		return ""
	}
	return read[0].Value
}
