package iptables

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"

	"github.com/svcproxy/svcproxy/kernel"
)

// errNoIPv6 answers ops on IPv6 chains where the kernel has no IPv6.
var errNoIPv6 = &kernel.MissingError{
	What: "this kernel runs without IPv6",
	Hint: "boot without ipv6.disable=1, or serve no IPv6 addresses",
}

// Tool is one family's iptables as probed.
type Tool struct {
	Name    string // "iptables"
	Version string // "1.8.9"
	NFT     bool   // the rules are in nftables, else in the legacy tables
}

func (t Tool) String() string {
	backend := "legacy"
	if t.NFT {
		backend = "nf_tables"
	}
	return fmt.Sprintf("%s %s (%s)", t.Name, t.Version, backend)
}

var toolNames = map[kernel.Family]string{kernel.IPv4: "iptables", kernel.IPv6: "ip6tables"}

// Releases before 1.8 do not say which back end they are: there was only one.
var versionLine = regexp.MustCompile(`^ip6?tables v(\d+)\.(\d+)(?:\.(\d+))?\S*(?: \((\w+)\))?`)

// oldest release that can be used: iptables-restore has --wait since 1.6.2.
var oldest = [3]int{1, 6, 2}

const packageHint = "apt-get install iptables"

// probe asks a family's iptables for its version and back end.
func probe(ctx context.Context, run Run, f kernel.Family) (Tool, error) {
	name := toolNames[f]
	out, err := run(ctx, "", name, "--version")
	if errors.Is(err, exec.ErrNotFound) {
		return Tool{}, &kernel.MissingError{What: name + " is not installed", Hint: packageHint}
	}
	if err != nil {
		return Tool{}, fmt.Errorf("probing %s: %w", name, err)
	}
	return parseVersion(name, out)
}

// alike says whether two tools are one program under two names: then they are of
// one version, with one back end, and asking one is enough. So it is wherever
// iptables comes as a program that does as it is called.
func alike(a, b string) bool {
	var files [2]os.FileInfo
	for i, name := range []string{a, b} {
		path, err := find(name)
		if err != nil {
			return false
		}
		if files[i], err = os.Stat(path); err != nil {
			return false
		}
	}
	return os.SameFile(files[0], files[1])
}

func parseVersion(name, out string) (Tool, error) {
	m := versionLine.FindStringSubmatch(out)
	if m == nil {
		return Tool{}, fmt.Errorf("probing %s: %q is not a version", name, out)
	}
	var v [3]int
	for i := range v {
		v[i], _ = strconv.Atoi(m[i+1]) // digits, or the absent third number
	}
	t := Tool{Name: name, Version: fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]), NFT: m[4] == "nf_tables"}
	for i := range v {
		if v[i] > oldest[i] {
			break
		}
		if v[i] < oldest[i] {
			return Tool{}, &kernel.MissingError{
				What: fmt.Sprintf("%s is %s, which cannot wait for the xtables lock: 1.6.2 is needed", name, t.Version),
				Hint: packageHint,
			}
		}
	}
	return t, nil
}

// hasIPv6 says whether the kernel of this network namespace has IPv6 at all.
func hasIPv6() bool {
	_, err := os.Stat("/proc/thread-self/net/if_inet6")
	return err == nil
}
