package sysctl

import "golang.org/x/sys/unix"

// CanWrite says whether a parameter is there and we may set it. In a network
// namespace that is not the first one, some of those below net are read-only
// for root, too.
func (p *Params) CanWrite(name string) bool {
	path, err := p.path(name)
	return err == nil && unix.Access(path, unix.W_OK) == nil
}
