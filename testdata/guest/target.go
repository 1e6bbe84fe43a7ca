package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A target is the Debian that a guest has: the suite of its kernel, and by
// Debian's name the kind of its processor.
type target struct{ Suite, Arch string }

const defaultSuite = "bookworm"

func targetFlags(fs *flag.FlagSet) *target {
	t := new(target)
	fs.StringVar(&t.Suite, "suite", env("SVCPROXY_GUEST_SUITE", defaultSuite), "Debian suite of the kernel (SVCPROXY_GUEST_SUITE)")
	fs.StringVar(&t.Arch, "arch", env("SVCPROXY_GUEST_ARCH", "amd64"), "amd64 or arm64 (SVCPROXY_GUEST_ARCH)")
	return t
}

// String is also the name of the target's folder in the cache.
func (t target) String() string {
	if t.Arch == "amd64" {
		return t.Suite
	}
	return t.Suite + "." + t.Arch
}

// release is the suite of the target's root: the kernel may be backports'.
func (t target) release() string {
	release, _, _ := strings.Cut(t.Suite, "-")
	return release
}

// foreign reports whether this machine cannot run the target's programs.
func (t target) foreign() bool { return t.Arch != runtime.GOARCH }

// programs is the folder of programs that the guest finds where ours are, beside
// self: that of a foreign target is below it.
func (t target) programs(self string) string {
	dir := filepath.Dir(self)
	if t.foreign() {
		return filepath.Join(dir, t.Arch)
	}
	return dir
}

// An emulation is how QEMU makes a machine of an architecture.
type emulation struct {
	program string
	machine []string
	append  string // kernel arguments
	cpu     string
	// lessCPU and lessAppend take instructions away that QEMU runs slowly.
	lessCPU, lessAppend string
}

var emulations = map[string]emulation{
	// TCG runs rep movs and rep stos as a loop, a byte or eight at a time. Linux and libc have loops that do more: a guest
	// takes a fifth less of the processor. Linux takes rep_good for granted, so QEMU's flags are not enough.
	"amd64": {
		program: "qemu-system-x86_64", machine: []string{"-M", "pc"},
		append:  "console=ttyS0 reboot=t random.trust_cpu=on tsc=reliable no_timer_check",
		cpu:     "max",
		lessCPU: ",-erms,-fsrm", lessAppend: " clearcpuid=rep_good",
	},
	// The cortex-a72 has no pointer authentication, which TCG computes slowly.
	"arm64": {program: "qemu-system-aarch64", machine: []string{"-M", "virt"}, append: "console=ttyAMA0", cpu: "cortex-a72"},
}

func (t target) emulation() (emulation, error) {
	e, ok := emulations[t.Arch]
	if !ok {
		return e, fmt.Errorf("--arch=%s: want amd64 or arm64", t.Arch)
	}
	return e, nil
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
