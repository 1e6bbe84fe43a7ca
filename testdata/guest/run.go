package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A runner runs jobs on some kernel that has what svcproxy needs.
type runner struct {
	machine *machine
	target  *target
	kernel  string // a folder to use instead of the target's
	where   string // "qemu", "native" or "auto"
	load    string
	root    bool
	systemd bool
	kept    string // a file: what an earlier guest has written
	binds   []string
	fetches []fetch
}

func runnerFlags(fs *flag.FlagSet) *runner {
	r := &runner{machine: machineFlags(fs), target: targetFlags(fs)}
	fs.StringVar(&r.kernel, "kernel", os.Getenv("SVCPROXY_GUEST_KERNEL"), "folder of an unpacked kernel, instead of the suite's (SVCPROXY_GUEST_KERNEL)")
	fs.StringVar(&r.where, "where", env("SVCPROXY_GUEST_WHERE", "auto"), "qemu, native (new namespaces on this kernel) or auto (SVCPROXY_GUEST_WHERE)")
	fs.StringVar(&r.load, "load", env("SVCPROXY_GUEST_LOAD", "dummy,ip_vs"), "modules to load first (SVCPROXY_GUEST_LOAD)")
	fs.Func("out", "folder that gets what the command leaves in $SVCPROXY_GUEST_OUT", func(dir string) error {
		r.fetches = append(r.fetches, fetch{".", dir})
		return os.MkdirAll(dir, 0o755)
	})
	fs.BoolVar(&r.root, "root", os.Getenv("SVCPROXY_GUEST_ROOT") == "1", "run in the suite's root (guest root), not in the host's files (SVCPROXY_GUEST_ROOT=1)")
	fs.BoolVar(&r.systemd, "systemd", false, "boot the suite's root with systemd (guest root) and run the command as its last unit")
	fs.StringVar(&r.kept, "keep", "", "with --systemd: `FILE` that what is written is restored from, if it is there, and kept in")
	fs.Func("bind", "with --root or --systemd: `FOLDER` of the host that the command finds at its place, besides the working folder", func(dir string) error {
		r.binds = append(r.binds, dir)
		return nil
	})
	fs.DurationVar(&r.machine.Limit, "limit", 0, "end the guest after this time; 0 is never, or a minute past a test binary's own -test.timeout")
	return r
}

// runCommand runs one command and ends with its exit code.
func runCommand(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("guest run", flag.ExitOnError)
	r := runnerFlags(fs)
	fs.Parse(args)
	if fs.NArg() == 0 {
		fs.Usage()
		return exitCode(exitUsage)
	}
	return r.run(ctx, fs.Args())
}

func (r *runner) run(ctx context.Context, args []string) error {
	args, err := absolute(args)
	if err != nil {
		return err
	}
	native, err := r.native()
	if err != nil {
		return err
	}
	code := 0
	if native {
		code, err = r.runNative(ctx, args)
	} else {
		code, err = r.runGuest(ctx, args)
	}
	if err != nil {
		return err
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

// absolute makes a command given by a relative path good for any folder.
func absolute(args []string) ([]string, error) {
	if !strings.Contains(args[0], "/") {
		return args, nil
	}
	path, err := filepath.Abs(args[0])
	return append([]string{path}, args[1:]...), err
}

func (r *runner) native() (bool, error) {
	switch r.where {
	case "native":
		return true, nil
	case "qemu":
		return false, nil
	case "auto":
		// Icount, a network, a kernel or root of one's own and kernel arguments mean a machine.
		return os.Geteuid() == 0 && !r.systemd && !r.root && r.target.Suite == defaultSuite && !r.target.foreign() && !r.machine.Icount && !r.machine.Net && r.kernel == "" && r.machine.Append == "" && kernelHasIPVS(), nil
	}
	return false, fmt.Errorf("--where=%s: want qemu, native or auto", r.where)
}

func (r *runner) runGuest(ctx context.Context, args []string) (int, error) {
	k, err := r.openKernel()
	if err != nil {
		return 0, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	out := filepath.Join(scratch, "out")
	rest, fetches, limit := redirect(args[1:], dir, out)
	m := *r.machine
	if m.Limit == 0 && limit > 0 {
		m.Limit = m.BootLimit + limit + time.Minute
	}
	j := job{Args: append(args[:1:1], rest...), Dir: dir, Modules: k.modules(), Net: m.Net, Env: environment(out)}
	if r.load != "" {
		j.Load = strings.Split(r.load, ",")
	}
	if cover := os.Getenv("GOCOVERDIR"); cover != "" {
		j.Env = slices.DeleteFunc(j.Env, func(v string) bool { return strings.HasPrefix(v, "GOCOVERDIR=") })
		j.Env = append(j.Env, "GOCOVERDIR="+out+"/covdata")
		fetches = append(fetches, fetch{"covdata", cover})
	}
	if r.systemd || r.root || r.target.foreign() {
		if err := r.enterRoot(&j); err != nil {
			return 0, err
		}
	}
	if r.systemd {
		j.Systemd, j.Keep, m.Kept = true, r.kept != "", r.kept
		if j.Keep {
			fetches = append(fetches, fetch{keptFile, r.kept})
		}
	}
	return m.boot(ctx, k, j, append(fetches, r.fetches...))
}

// enterRoot gives the job the target's root, and there the folders of the host that it needs.
func (r *runner) enterRoot(j *job) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if j.Root, err = rootDir(*r.target); err != nil {
		return err
	}
	if !exists(j.Root) {
		return fmt.Errorf("no root in %s: run `guest root --suite %s --arch %s`", j.Root, r.target.Suite, r.target.Arch)
	}
	for _, dir := range append([]string{j.Dir}, r.binds...) {
		j.Bind = append(j.Bind, bind{dir, dir})
	}
	j.Bind = append(j.Bind, bind{r.target.programs(self), filepath.Dir(self)})
	return nil
}

func (r *runner) openKernel() (kernel, error) {
	if r.kernel != "" {
		return openKernel(r.kernel, *r.target)
	}
	return cachedKernel(*r.target)
}
