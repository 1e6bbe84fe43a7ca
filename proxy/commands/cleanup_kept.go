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
	for _, k := range keepaliveds() {
		if !k.serves {
			continue
		}
		r, err := k.read()
		if err != nil {
			return nil, err
		}
		if keys := keysOf(r); len(keys) > 0 {
			list = append(list, proxy.Kept{By: fmt.Sprintf("keepalived (process %d) has them in %s", k.pid, k.file), Keys: keys})
		}
	}
	return list, nil
}

// keepalived is a process, and its configuration.
type keepalived struct {
	pid    int
	file   string
	serves bool // virtual servers, too: with --vrrp it only moves addresses
}

// keepaliveds finds those of root. Their children have the same arguments and are not named again.
func keepaliveds() (list []keepalived) {
	var seen []os.FileInfo
	for _, p := range machine.Processes() {
		uid, known := machine.UserOf(p.PID)
		if p.Name != "keepalived" || !known || uid != 0 {
			continue
		}
		file, serves := keepalivedFile(machine.Arguments(p.PID))
		file = machine.Within(p.PID, file)
		if info, err := os.Stat(file); err == nil { // else read says why
			if slices.ContainsFunc(seen, func(i os.FileInfo) bool { return os.SameFile(i, info) }) {
				continue
			}
			seen = append(seen, info)
		}
		list = append(list, keepalived{p.PID, file, serves})
	}
	return list
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

// keepalivedOptions reads a command line as getopt_long does for keepalived: letters can be combined, and an
// argument is the rest of a word or the next word.
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

// read reads the configuration, and what it includes.
func (k keepalived) read() (convert.Result, error) {
	r, err := k.convert()
	if err != nil {
		return r, &cli.Error{
			Code: cli.Failed, Err: fmt.Errorf("keepalived (process %d) runs, and what it has in its configuration is not "+
				"known: %w", k.pid, err),
			Hint: "correct its configuration, or stop it first",
		}
	}
	return r, nil
}

func (k keepalived) convert() (convert.Result, error) {
	data, err := os.ReadFile(k.file)
	if err != nil {
		return convert.Result{}, err
	}
	open := func(pattern, from string) ([]convert.File, error) {
		if filepath.IsAbs(pattern) && !strings.HasPrefix(pattern, machine.Within(k.pid, "/")) { // as ${_PWD} is
			pattern = machine.Within(k.pid, pattern)
		}
		return include{}.open(pattern, from)
	}
	r, err := convert.Read(convert.Keepalived, convert.File{Name: k.file, Data: data}, open)
	if err == nil {
		err = r.Unread
	}
	return r, err
}

// keysOf returns the virtual servers of a configuration. One without a protocol may be of TCP or of UDP.
func keysOf(r convert.Result) (keys []kernel.VirtualKey) {
	for i := range r.Services {
		for a := range r.Services[i].Addresses {
			keys = append(keys, keyOf(a))
		}
	}
	for _, a := range r.NoProtocol {
		keys = append(keys, kernel.VirtualAt(a, kernel.UDP))
	}
	return keys
}

func keyOf(a sources.Address) kernel.VirtualKey {
	return kernel.VirtualKey{Addr: a.Addr, Port: a.Port, Proto: kernel.Proto(a.Protocol)}
}
