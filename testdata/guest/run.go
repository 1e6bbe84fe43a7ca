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
	suite   *string
	kernel  string // a folder to use instead of the suite's
	where   string // "qemu", "native" or "auto"
	load    string
	systemd bool
	kept    string // a file: what an earlier guest has written
	binds   []string
	fetches []fetch
}

func runnerFlags(fs *flag.FlagSet) *runner {
	r := &runner{machine: machineFlags(fs), suite: suiteFlag(fs)}
	fs.StringVar(&r.kernel, "kernel", os.Getenv("SVCPROXY_GUEST_KERNEL"), "folder of an unpacked kernel, instead of the suite's (SVCPROXY_GUEST_KERNEL)")
	fs.StringVar(&r.where, "where", env("SVCPROXY_GUEST_WHERE", "auto"), "qemu, native (new namespaces on this kernel) or auto (SVCPROXY_GUEST_WHERE)")
	fs.StringVar(&r.load, "load", env("SVCPROXY_GUEST_LOAD", "dummy,ip_vs"), "modules to load first (SVCPROXY_GUEST_LOAD)")
	fs.Func("out", "folder that gets what the command leaves in $SVCPROXY_GUEST_OUT", func(dir string) error {
		r.fetches = append(r.fetches, fetch{".", dir})
		return os.MkdirAll(dir, 0o755)
	})
	fs.BoolVar(&r.systemd, "systemd", false, "boot the suite's root with systemd (guest root) and run the command as its last unit")
	fs.StringVar(&r.kept, "keep", "", "with --systemd: `FILE` that what is written is restored from, if it is there, and kept in")
	fs.Func("bind", "with --systemd: `FOLDER` of the host that the command finds at its place, besides the working folder", func(dir string) error {
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
		// Icount, a network, a kernel of one's own and kernel arguments mean a machine.
		return os.Geteuid() == 0 && !r.systemd && !r.machine.Icount && !r.machine.Net && r.kernel == "" && r.machine.Append == "" && kernelHasIPVS(), nil
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
	if r.systemd {
		if j.Root, err = rootDir(*r.suite); err != nil {
			return 0, err
		}
		if _, err := os.Stat(j.Root); err != nil {
			return 0, fmt.Errorf("%w: run `guest root`", err)
		}
		j.Bind, j.Keep, m.Kept = append([]string{dir}, r.binds...), r.kept != "", r.kept
		if j.Keep {
			fetches = append(fetches, fetch{keptFile, r.kept})
		}
	}
	return m.boot(ctx, k, j, append(fetches, r.fetches...))
}

func (r *runner) openKernel() (kernel, error) {
	if r.kernel != "" {
		return openKernel(r.kernel)
	}
	return cachedKernel(*r.suite)
}
