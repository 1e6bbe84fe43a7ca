package commands

import (
	"cmp"
	"fmt"
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
	for _, o := range keepalivedOptions(args) {
		switch o.name {
		case "f", "use-file":
			file = cmp.Or(o.value, file)
		case "P", "vrrp":
			serves = false
		case "all": // takes --vrrp back
			serves = true
		}
	}
	return file, serves
}

// option is an option on a command line, without its dashes, and its argument.
type option struct{ name, value string }

// The letters of keepalived's options that take an argument, and of those that take one only from the rest of the same
// word.
const (
	withArgument = "fpicrbAsSu"
	withRest     = "gMt"
)

// keepalivedOptions reads a command line as getopt_long does for keepalived: letters can be combined, and an argument is
// the rest of a word or the next word.
func keepalivedOptions(args []string) (list []option) {
	next := func() (word string) {
		if len(args) > 0 {
			word, args = args[0], args[1:]
		}
		return word
	}
	for len(args) > 0 {
		word := next()
		if long, ok := strings.CutPrefix(word, "--"); ok {
			name, value, given := strings.Cut(long, "=")
			if name == "use-file" && !given {
				value = next()
			}
			list = append(list, option{name, value})
			continue
		}
		letters, short := strings.CutPrefix(word, "-")
		for short && letters != "" {
			o := option{name: letters[:1]}
			letters = letters[1:]
			switch {
			case strings.Contains(withArgument, o.name) && letters == "":
				o.value = next()
			case strings.Contains(withArgument+withRest, o.name):
				o.value, letters = letters, ""
			}
			list = append(list, o)
		}
	}
	return list
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
	return kernel.VirtualKey{Addr: a.Addr, Port: a.Port, Proto: kernel.Proto(a.Protocol)}
}
