// Package sysctl reads and writes kernel parameters below /proc/sys by their
// dotted names, and has what those that it changed were before remembered.
//
// It refuses names that lead out of /proc/sys, and it never guesses: a parameter
// that this kernel lacks is an error with the module that brings it, where one
// does.
package sysctl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/before"
)

const procSys = "/proc/sys"

// Params are the kernel parameters that the calling thread sees: those below
// net belong to its network namespace. One goroutine at a time may use it.
type Params struct {
	root string
	was  *before.Values
}

// Open gives the parameters; what they were before a change goes to was.
func Open(was *before.Values) *Params { return &Params{root: procSys, was: was} }

// Read returns the parameters of these names, sorted. Those that this kernel
// lacks are left out.
func (p *Params) Read(names []string) ([]kernel.Sysctl, error) {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	read := make([]kernel.Sysctl, 0, len(names))
	for _, name := range names {
		value, err := p.get(name)
		var missing *kernel.MissingError
		if errors.As(err, &missing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		read = append(read, kernel.Sysctl{Name: name, Value: value})
	}
	return read, nil
}

// Apply writes the values of kernel.Sysctl objects (Add, Change) in their order
// and goes on past errors. The result is parallel to ops. A parameter that this
// kernel lacks is a *kernel.MissingError.
//
// What a parameter was is remembered before it is first written, so that a crash
// in between leaves a memory without a change, which does no harm. Writing that
// value again forgets it.
func (p *Params) Apply(ops []kernel.Op) []error {
	errs := make([]error, len(ops))
	var going []int
	for i, op := range ops {
		s, ok := op.Object.(kernel.Sysctl)
		switch {
		case !ok:
			errs[i] = fmt.Errorf("%s is not a kernel parameter", op.Object.Kind())
		case op.Verb == kernel.Remove:
			errs[i] = errors.New("a kernel parameter cannot be removed")
		default:
			value, err := p.get(s.Name)
			if errs[i] = err; err == nil {
				p.was.Changing(s.Name, value, canonical(s.Value))
				going = append(going, i)
			}
		}
	}
	p.was.Store()
	for _, i := range going {
		s := ops[i].Object.(kernel.Sysctl)
		if errs[i] = p.set(s.Name, s.Value); errs[i] == nil {
			p.was.Changed(s.Name, canonical(s.Value))
		}
	}
	p.was.Store()
	return errs
}

// CanWrite says whether a parameter is there and may be written: some that hold
// for the whole machine are read-only in all network namespaces but the first.
func (p *Params) CanWrite(name string) bool {
	path, err := p.path(name)
	// With the capabilities we have: access(2) would ask without them for a
	// process that is not root's.
	return err == nil && unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) == nil
}

func (p *Params) get(name string) (string, error) {
	path, err := p.path(name)
	if err != nil {
		return "", err
	}
	value, err := os.ReadFile(path)
	if err != nil {
		return "", p.failed("reading", name, err)
	}
	return canonical(string(value)), nil
}

func (p *Params) set(name, value string) error {
	path, err := p.path(name)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0) // not to create: in /proc/sys nothing can be
	if err != nil {
		return p.failed("writing", name, err)
	}
	_, err = f.WriteString(value + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return p.failed("writing", name, err)
	}
	return nil
}

func (p *Params) failed(doing, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return p.missing(name)
	}
	return fmt.Errorf("%s kernel parameter %s: %w", doing, name, err)
}

// path is the file of a parameter. As with sysctl(8), a dot separates and a
// slash stands for a dot inside a part: net.ipv4.conf.eth0/100.rp_filter.
func (p *Params) path(name string) (string, error) {
	swapped := strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, name)
	for part := range strings.SplitSeq(swapped, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsRune(part, 0) {
			return "", fmt.Errorf("kernel parameter %q: not a name", name)
		}
	}
	return filepath.Join(p.root, swapped), nil
}

// canonical is a value as it is compared: without the newline, and with one
// space where the kernel prints tabs.
func canonical(value string) string { return strings.Join(strings.Fields(value), " ") }
