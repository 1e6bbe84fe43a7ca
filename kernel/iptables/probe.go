package iptables

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"

	goiptables "github.com/coreos/go-iptables/iptables"

	"github.com/svcproxy/svcproxy/kernel"
)

// errNoIPv6 is the error for ops on IPv6 chains if the kernel has no IPv6.
var errNoIPv6 = &kernel.MissingError{
	What: "this kernel runs without IPv6",
	Hint: "boot without ipv6.disable=1, or serve no IPv6 addresses",
}

// Tool describes the iptables of one family.
type Tool struct {
	Name    string // "iptables"
	Version string // "1.8.9"
	NFT     bool   // the rules are in nftables, otherwise in the legacy tables
}

func (t Tool) String() string {
	backend := "legacy"
	if t.NFT {
		backend = "nf_tables"
	}
	return fmt.Sprintf("%s %s (%s)", t.Name, t.Version, backend)
}

var protocols = map[kernel.Family]goiptables.Protocol{kernel.IPv4: goiptables.ProtocolIPv4,
	kernel.IPv6: goiptables.ProtocolIPv6}

const packageHint = "apt-get install iptables"

// probe finds the iptables of a family and asks it for its version and back end.
func probe(ctx context.Context, find Find, f kernel.Family) (Tool, error) {
	name := f.Tool()
	path, err := find(name)
	if errors.Is(err, exec.ErrNotFound) {
		return Tool{}, &kernel.MissingError{What: name + " is not installed", Hint: packageHint}
	}
	if err != nil {
		return Tool{}, fmt.Errorf("finding %s: %w", name, err)
	}
	found, err := version(ctx, path, f)
	if err != nil {
		return Tool{}, fmt.Errorf("probing %s: %w", name, err)
	}
	major, minor, patch := found.GetIptablesVersion()
	t := Tool{Name: name, Version: fmt.Sprintf("%d.%d.%d", major, minor, patch), NFT: backEndOf(found) == "nf_tables"}
	// Our rules use MASQUERADE --random-fully. The release that brought it, 1.6.2, also brought
	// iptables-restore --wait.
	if !found.HasRandomFully() {
		return Tool{}, &kernel.MissingError{
			What: fmt.Sprintf("%s is %s, which cannot wait for the xtables lock: 1.6.2 is needed", name, t.Version),
			Hint: packageHint,
		}
	}
	return t, nil
}

// version runs a tool with --version through go-iptables, which sets no time limit itself.
func version(ctx context.Context, path string, f kernel.Family) (*goiptables.IPTables, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var found *goiptables.IPTables
	done := make(chan error, 1)
	go func() {
		var err error
		found, err = goiptables.New(goiptables.Path(path), goiptables.IPFamily(protocols[f]))
		done <- err
	}()
	select {
	case err := <-done:
		return found, err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s --version: no answer: %w", path, context.Cause(ctx))
	}
}

// backEndOf returns the back end that a tool named in its --version: "nf_tables" or "legacy". go-iptables
// parses it and exports no function for it. Running --version a second time would cost a start 1.5 to
// 10 ms, so backEndOf reads the private field. TestProbe fails if a release of the library renames it.
func backEndOf(t *goiptables.IPTables) string {
	field := reflect.ValueOf(t).Elem().FieldByName("mode")
	if field.Kind() != reflect.String {
		return ""
	}
	return field.String()
}

// sameFile reports whether two paths lead to one program. If iptables and ip6tables do, they have
// the same version and back end, and one probe is enough. It is so wherever iptables is a program
// that looks at the name it was called by.
func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}
