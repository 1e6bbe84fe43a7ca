// Package before remembers what parameters of the kernel were before we changed
// them, so that cleanup can put them back: sysctls, and IPVS's timeouts.
//
// It holds for one boot, since the next begins with the kernel's own values. It
// refuses to know how a parameter is read or written, and it never fails: a state
// directory that cannot be used costs the memory on disk, and Warning says so.
package before

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/statefile"
)

// File is the file in the state directory.
const File = "sysctls.json"

// maxSize is far above a record's: some 40 parameters of 200 bytes, and one for each link.
const maxSize = 1 << 20

// Values are what parameters were, in memory and on disk. One goroutine at a
// time may use them.
type Values struct {
	path    string // "" keeps them in memory alone
	boot    string
	list    []kernel.Saved
	dirty   bool // memory and disk differ
	warning error
}

// record is the file's content.
type record struct {
	BootID  string      `json:"bootID"`
	Sysctls []parameter `json:"sysctls"`
}

type parameter struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	Ours   string `json:"ours"`
}

// BootID tells one boot of this machine from another.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// Open reads what is remembered in stateDir from this boot; "" remembers nothing
// on disk. Trouble with the directory is no error: Warning has it.
func Open(stateDir, bootID string) *Values {
	v := &Values{boot: bootID}
	if stateDir != "" {
		v.path = filepath.Join(stateDir, File)
		v.load()
	}
	return v
}

func (v *Values) load() {
	text, err := statefile.Read(v.path, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var r record
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		v.warning = fmt.Errorf("reading what kernel parameters were before: %s: %w", v.path, err)
		return
	}
	if r.BootID != v.boot {
		return
	}
	for _, p := range r.Sysctls {
		if _, there := v.find(p.Name); !there {
			v.put(kernel.Saved(p))
		}
	}
}

// Check leaves out the parameters for which known has an error: what root puts
// back must not be what the service's user has written into the file. Warning
// has the errors.
func (v *Values) Check(known func(kernel.Saved) error) {
	v.list = slices.DeleteFunc(v.list, func(p kernel.Saved) bool {
		err := known(p)
		if err != nil {
			v.warning = fmt.Errorf("%s: %w: left out", v.path, err)
		}
		return err != nil
	})
}

// All has the parameters that were changed since boot, sorted by name.
func (v *Values) All() []kernel.Saved { return slices.Clone(v.list) }

// Warning says what is wrong with the state directory, so that `cleanup` may not
// find what parameters were before; nil if nothing is. It is about the latest
// use of the directory.
func (v *Values) Warning() error { return v.warning }

// Changing notes a value that is about to be replaced, unless one from earlier
// in this boot is known. Store has to follow before the change, so that a crash
// in between leaves a memory without a change, which does no harm.
func (v *Values) Changing(name, before, ours string) {
	if _, there := v.find(name); !there && before != ours {
		v.put(kernel.Saved{Name: name, Before: before, Ours: ours})
		v.dirty = true
	}
}

// Changed notes a value that was written: it is ours now, or, if it is the one
// from before, nothing is left to put back.
func (v *Values) Changed(name, value string) {
	i, there := v.find(name)
	switch {
	case !there:
	case v.list[i].Before == value:
		v.list = slices.Delete(v.list, i, i+1)
		v.dirty = true
	case v.list[i].Ours != value:
		v.list[i].Ours = value
		v.dirty = true
	}
}

func (v *Values) find(name string) (int, bool) {
	return slices.BinarySearchFunc(v.list, name, func(p kernel.Saved, name string) int { return strings.Compare(p.Name, name) })
}

func (v *Values) put(p kernel.Saved) {
	i, _ := v.find(p.Name)
	v.list = slices.Insert(v.list, i, p)
}

// Store brings the disk up to date. What could not be written is tried again
// with the next change.
func (v *Values) Store() {
	if !v.dirty || v.path == "" {
		return
	}
	if err := v.write(); err != nil {
		v.warning = fmt.Errorf("remembering what kernel parameters were before: %w", err)
		return
	}
	v.dirty, v.warning = false, nil
}

// write replaces the file as a whole, so that a crash leaves the old or the new.
func (v *Values) write() error {
	r := record{BootID: v.boot, Sysctls: make([]parameter, len(v.list))}
	for i, p := range v.list {
		r.Sysctls[i] = parameter(p)
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return statefile.Write(v.path, append(text, '\n'), 0o644)
}
