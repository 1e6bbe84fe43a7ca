// Package sysctl reads and writes kernel parameters below /proc/sys by their dotted names. Before
// it changes one it saves the old value, so that cleanup can restore it.
//
// It rejects names that lead out of /proc/sys. If the kernel lacks a parameter, the error names the
// module that would bring it.
package sysctl

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

const procSys = "/proc/sys"

// Params reads and writes the kernel parameters of the calling thread: those below net belong to
// its network namespace. One goroutine at a time may use it.
type Params struct {
	root  string
	saved *Saved
}

// Open returns the parameters. Apply saves old values in saved.
func Open(saved *Saved) *Params { return &Params{root: procSys, saved: saved} }

// Read returns the parameters with these names, sorted. It skips those that this kernel lacks.
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

// Apply writes the values of kernel.Sysctl objects (Add, Change) in order and continues after
// errors. The result has one error per op. If this kernel lacks a parameter, its error is a
// *kernel.MissingError.
//
// Apply saves the old value of a parameter before it first writes it. Writing the old value again
// drops the saved one.
func (p *Params) Apply(ops []kernel.Op) []error {
	errs := make([]error, len(ops))
	var writable []int
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
				p.saved.Save(s.Name, value, canonical(s.Value))
				writable = append(writable, i)
			}
		}
	}
	p.saved.Flush()
	for _, i := range writable {
		s := ops[i].Object.(kernel.Sysctl)
		if errs[i] = p.set(s.Name, s.Value); errs[i] == nil {
			p.saved.Wrote(s.Name, canonical(s.Value))
		}
	}
	p.saved.Flush()
	return errs
}

// CanWrite reports whether a parameter exists and may be written. Some parameters of the whole
// machine are read-only in every network namespace but the first.
func (p *Params) CanWrite(name string) bool {
	path, err := p.path(name)
	// AT_EACCESS takes our capabilities into account. Plain access(2) ignores them for a process
	// that does not run as root.
	return err == nil && unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) == nil
}

func (p *Params) get(name string) (string, error) {
	path, err := p.path(name)
	if err != nil {
		return "", err
	}
	value, err := readFile(path)
	if err != nil {
		return "", p.failed("reading", name, err)
	}
	return canonical(value), nil
}

func (p *Params) set(name, value string) error {
	path, err := p.path(name)
	if err != nil {
		return err
	}
	if err := writeFile(path, value+"\n"); err != nil {
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

// path returns the file of a parameter. As in sysctl(8), a dot separates parts, and a slash stands
// for a dot inside a part: net.ipv4.conf.eth0/100.rp_filter.
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

// canonical returns a value in the form used for comparisons: without the newline, and with one
// space where the kernel prints tabs.
func canonical(value string) string { return strings.Join(strings.Fields(value), " ") }
