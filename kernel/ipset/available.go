package ipset

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// types are the set types that we use.
var types = []kernel.SetType{kernel.HashIP, kernel.HashIPPort, kernel.HashIPPortIP, kernel.HashIPPortNet,
	kernel.BitmapPort}

// Available reports whether this kernel has ipset and every type that we use. The kernel loads them
// when asked. If something is missing, the error is a *kernel.MissingError that names the module.
// Any other error means that it is not known.
func (s *Sets) Available() error {
	err := s.ask(func(b *nl.Batch) { begin(b, cmdProtocol, 0) })
	switch {
	case errors.Is(err, unix.EINVAL): // nfnetlink has no such subsystem
		return missing("ipset", "ip_set")
	case err != nil:
		return fmt.Errorf("asking the kernel for ipset: %w", err)
	}
	for _, t := range types {
		family := uint8(unix.AF_INET)
		if t == kernel.BitmapPort {
			family = unix.AF_UNSPEC
		}
		err := s.ask(func(b *nl.Batch) {
			begin(b, cmdType, 0)
			b.Text(attrTypeName, string(t))
			b.U8(attrFamily, family)
		})
		switch {
		case errors.Is(err, unix.Errno(errFindType)):
			return missing("ipset type "+string(t), module(t))
		case err != nil:
			return fmt.Errorf("asking the kernel for ipset type %s: %w", t, err)
		}
	}
	return nil
}

func (s *Sets) ask(put func(*nl.Batch)) error {
	s.batch.Reset()
	put(&s.batch)
	s.batch.End()
	return s.conn.Get(&s.batch, func([]byte) error { return nil })
}

// module returns the kernel module of a set type, such as ip_set_hash_ipportnet.
func module(t kernel.SetType) string {
	method, parts, _ := strings.Cut(string(t), ":")
	return "ip_set_" + method + "_" + strings.ReplaceAll(parts, ",", "")
}
