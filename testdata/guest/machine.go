package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A machine is the QEMU machine a job runs in.
type machine struct {
	CPUs, Memory int    // memory in MiB
	Icount       bool   // one instruction is one nanosecond: repeatable, one CPU
	Net          bool   // eth0 is a network with the host at 10.0.2.2
	Append       string // more kernel arguments, last so that they win
	QEMU         string // more QEMU arguments, split at spaces
	Console      bool   // the console goes to standard error
	BootLimit    time.Duration
	Limit        time.Duration // on the whole; zero is none
	Kept         string        // a file for the guest to restore, if it is there
}

func machineFlags(fs *flag.FlagSet) *machine {
	m := new(machine)
	cpus, _ := strconv.Atoi(env("SVCPROXY_GUEST_CPUS", "2"))
	memory, _ := strconv.Atoi(env("SVCPROXY_GUEST_MEMORY", "2048"))
	fs.IntVar(&m.CPUs, "cpus", cpus, "virtual CPUs (SVCPROXY_GUEST_CPUS)")
	fs.IntVar(&m.Memory, "memory", memory, "memory in MiB (SVCPROXY_GUEST_MEMORY)")
	fs.BoolVar(&m.Icount, "icount", false, "count instructions as time (-icount shift=0) on one CPU")
	fs.BoolVar(&m.Net, "net", os.Getenv("SVCPROXY_GUEST_NET") == "1", "an eth0 with the host, its loopback too, at 10.0.2.2 (SVCPROXY_GUEST_NET=1)")
	fs.StringVar(&m.Append, "append", os.Getenv("SVCPROXY_GUEST_APPEND"), "more kernel arguments (SVCPROXY_GUEST_APPEND)")
	fs.StringVar(&m.QEMU, "qemu", os.Getenv("SVCPROXY_GUEST_QEMU"), "more QEMU arguments (SVCPROXY_GUEST_QEMU)")
	fs.BoolVar(&m.Console, "console", false, "show the guest's console on standard error")
	fs.DurationVar(&m.BootLimit, "boot-limit", 3*time.Minute, "how long the guest may take to boot")
	return m
}

// kernelArguments: no address randomisation and no self-tests (time), a panic
// or an oops ends the guest at once instead of hanging it. Without norandmaps
// QEMU translates ld.so and libc again for each process, which doubles the time
// of every short one.
const kernelArguments = "quiet panic=-1 oops=panic nokaslr norandmaps mitigations=off cryptomgr.notests audit=0 nowatchdog "

// arguments is QEMU's command line. Three virtio devices, because each costs a
// tenth of a second to probe; thread=single, because under TCG two threads only
// fight for this machine's processors.
func (m machine) arguments(k kernel, e emulation, dir string) []string {
	console := "file:" + filepath.Join(dir, "console")
	if m.Console {
		console = "file:/dev/stderr"
	}
	cpus, more := m.CPUs, e.append
	cpu := e.cpu
	if !m.Icount { // counting wants the instructions of a real processor
		cpu += e.lessCPU
		more += e.lessAppend
	}
	if k.Target.Arch == "amd64" {
		more += tscArgument(m.Icount)
	}
	var icount []string
	if m.Icount {
		cpus, icount = 1, []string{"-icount", "shift=0"}
	}
	args := append(e.machine[:len(e.machine):len(e.machine)], "-cpu", cpu,
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none", "-serial", console,
		"-accel", "tcg,thread=single", "-smp", strconv.Itoa(cpus), "-m", strconv.Itoa(m.Memory),
		"-kernel", k.vmlinux(), "-initrd", filepath.Join(dir, "initramfs"), "-append", kernelArguments+more+" "+m.Append,
		"-fsdev", "local,id=root,path=/,security_model=none,multidevs=remap,readonly=on",
		"-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
		"-fsdev", "local,id=scratch,path="+filepath.Join(dir, "scratch")+",security_model=none",
		"-device", "virtio-9p-pci,fsdev=scratch,mount_tag=scratch",
		"-chardev", "stdio,id=stdio,signal=off", "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=stdio,name=stdio",
	)
	args = append(args, icount...)
	if m.Net {
		// QEMU's own router would give the guest an IPv6 default route.
		args = append(args, "-nic", "user,model=virtio-net-pci,ipv6=off")
	}
	return append(args, strings.Fields(m.QEMU)...)
}

// boot starts the machine on a job and returns the command's exit code, once
// its files are where they belong. Everything else is an error.
func (m machine) boot(ctx context.Context, k kernel, j job, fetches []fetch) (int, error) {
	e, err := k.Target.emulation()
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "guest-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := stage(dir, k, j, fetches); err != nil {
		return 0, err
	}
	if err := m.stageKept(dir); err != nil {
		return 0, err
	}
	shared := filepath.Join(dir, "scratch")
	ended := m.emulate(ctx, e.program, m.arguments(k, e, dir), filepath.Join(shared, "up"))
	if err := carry(filepath.Join(shared, "out"), fetches); err != nil {
		return 0, err
	}
	exit, err := os.ReadFile(filepath.Join(shared, "exit"))
	if ended == nil && err == nil {
		return strconv.Atoi(string(exit))
	}
	console, _ := os.ReadFile(filepath.Join(dir, "console"))
	return 0, obituary(ended, string(console))
}

// stage lays out what the guest is given.
func stage(dir string, k kernel, j job, fetches []fetch) error {
	out := filepath.Join(dir, "scratch/out")
	if err := mkdirs(out); err != nil {
		return err
	}
	for _, f := range fetches {
		if f.from == "gocoverdir" || f.from == "covdata" {
			if err := mkdirs(filepath.Join(out, f.from)); err != nil {
				return err
			}
		}
	}
	image, err := initramfs(k)
	if err != nil {
		return fmt.Errorf("make the initramfs: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "initramfs"), image, 0o644); err != nil {
		return err
	}
	return j.write(filepath.Join(dir, "scratch"))
}

func (m machine) stageKept(dir string) error {
	if _, err := os.Stat(m.Kept); m.Kept == "" || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return copyFile(m.Kept, filepath.Join(dir, "scratch", keptFile))
}

// emulate runs QEMU to its end, which is too soon to call success.
func (m machine) emulate(ctx context.Context, program string, args []string, up string) error {
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	// Not /dev/null: at its end of file QEMU unplugs the virtio port, and the
	// guest's writes to it block for ever.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w; run `guest install`", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	err = m.watch(ctx, done, up)
	cmd.Process.Kill()
	return err
}

// watch waits for the end of QEMU, or for a reason to end it.
func (m machine) watch(ctx context.Context, done <-chan error, up string) error {
	var limit <-chan time.Time
	if m.Limit > 0 {
		limit = time.After(m.Limit)
	}
	boot := time.After(m.BootLimit)
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("qemu: %w", err)
			}
			return nil
		case <-boot:
			if _, err := os.Stat(up); err != nil {
				return fmt.Errorf("the guest did not boot within %v: %w", m.BootLimit, context.DeadlineExceeded)
			}
		case <-limit:
			return fmt.Errorf("the guest did not end within %v: %w", m.Limit, context.DeadlineExceeded)
		case <-ctx.Done():
			return errors.New("stopped by a signal")
		}
	}
}

// obituary says why a guest gave no exit code, with the end of its console.
func obituary(ended error, console string) error {
	if ended == nil {
		ended = errors.New("the guest ended without an exit code")
	}
	for line := range strings.Lines(console) {
		if _, reason, ok := strings.Cut(line, "Kernel panic - not syncing: "); ok {
			ended = fmt.Errorf("kernel panic in the guest: %s: %w", strings.TrimSpace(reason), ended)
			break
		}
	}
	const most = 6000
	if len(console) > most {
		console = "..." + console[len(console)-most:]
	}
	return fmt.Errorf("%w\n--- end of the guest's console\n%s---", ended, strings.ReplaceAll(console, "\r", ""))
}
