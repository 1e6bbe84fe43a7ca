package commands

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/convert"
)

// kept returns the virtual servers that keepalived on this node has in its configuration: cleanup leaves them. The
// kernel does not say who serves a virtual server, and keepalived takes over those that it finds.
func kept() (list []proxy.Kept, err error) {
	var read []os.FileInfo
	for _, p := range machine.Processes() {
		uid, known := machine.UserOf(p.PID)
		if p.Name != "keepalived" || !known || uid != 0 {
			continue
		}
		file, serves := keepalivedFile(machine.Arguments(p.PID))
		if !serves {
			continue
		}
		file = machine.Within(p.PID, file)
		if info, err := os.Stat(file); err == nil { // else keepalivedServes says why
			if slices.ContainsFunc(read, func(i os.FileInfo) bool { return os.SameFile(i, info) }) {
				continue // its children have its arguments
			}
			read = append(read, info)
		}
		keys, err := keepalivedServes(p.PID, file)
		if err != nil {
			return nil, &cli.Error{
				Code: cli.Failed, Err: fmt.Errorf("keepalived (process %d) runs, and which virtual servers it has is not known: %w", p.PID, err),
				Hint: "mend its configuration, or stop it first",
			}
		}
		if len(keys) > 0 {
			list = append(list, proxy.Kept{By: fmt.Sprintf("keepalived (process %d) has them in %s", p.PID, file), Keys: keys})
		}
	}
	return list, nil
}

// keepalivedFile returns the configuration of a keepalived with these arguments, and whether it has virtual servers at
// all: with --vrrp it only moves addresses.
func keepalivedFile(args []string) (file string, serves bool) {
	file, serves = "/etc/keepalived/keepalived.conf", true
	for i, a := range args {
		name, value, long := strings.Cut(a, "=")
		switch {
		case name == "--vrrp" || name == "-P":
			serves = false
		case name == "--use-file" && long:
			file = value
		case (name == "--use-file" || name == "-f") && i+1 < len(args):
			file = args[i+1]
		case strings.HasPrefix(a, "-f") && len(a) > 2:
			file = a[2:]
		}
	}
	return file, serves
}

// keepalivedServes reads the configuration of a process, and what it includes.
func keepalivedServes(pid int, file string) (keys []kernel.VirtualKey, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	include := func(pattern, from string) ([]convert.File, error) {
		if filepath.IsAbs(pattern) {
			pattern = machine.Within(pid, pattern)
		}
		return included(pattern, from)
	}
	r, err := convert.Read(convert.Keepalived, convert.File{Name: file, Data: data}, include)
	for i := range r.Services {
		for a := range r.Services[i].Addresses {
			keys = append(keys, keyOf(a))
		}
	}
	return keys, err
}

func keyOf(a sources.Address) kernel.VirtualKey {
	return kernel.VirtualKey{Addr: netip.AddrPortFrom(a.Addr, a.Port), Proto: kernel.Proto(a.Protocol)}
}
