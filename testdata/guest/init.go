package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// beInit is the guest's process 1. What goes wrong is said on the console,
// which the host shows when there is no exit code.
func beInit() {
	if err := serve(); err != nil {
		fmt.Println("guest: init:", err)
	}
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // QEMU has -no-reboot: it ends
	select {}
}

func serve() error {
	if err := inOrder(insertBootModules, mountShares); err != nil {
		return err
	}
	j, err := readJob("/scratch")
	if err != nil {
		return err
	}
	if err := inOrder(func() error { return restore(j) }, func() error { return mountRoot(j) }); err != nil {
		return err
	}
	if j.Systemd {
		return inOrder(func() error { return furnish(j) }, enterRoot, becomeSystemd)
	}
	if err := inOrder(func() error { return bindFolders(j) }, enterRoot, mountKernelFolders, func() error { return prepare(j) }); err != nil {
		return err
	}
	out, err := openPort("stdio")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(scratch, "up"), nil, 0o644); err != nil {
		return err
	}
	code := execute(j, out)
	out.Close()
	return os.WriteFile(filepath.Join(scratch, "exit"), []byte(strconv.Itoa(code)), 0o644)
}

func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func insertBootModules() error {
	if err := mount("dev", "/dev", "devtmpfs", 0, ""); err != nil {
		return err
	}
	modules, err := filepath.Glob("/modules/*") // sorted
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := insert(m); err != nil {
			return fmt.Errorf("insert %s: %w", m, err)
		}
	}
	return nil
}

func insert(module string) error {
	f, err := os.Open(module)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(module, ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// mountShares mounts the host's files read-only (QEMU refuses writes, too), the
// one writable folder of the host, and a folder in memory for all other writes.
func mountShares() error {
	const nineP = "trans=virtio,version=9p2000.L,msize=512000,cache="
	if err := mkdirs("/scratch"); err != nil {
		return err
	}
	if err := errors.Join(
		mount("root", "/lower", "9p", unix.MS_RDONLY, nineP+"loose"),
		mount("scratch", "/scratch", "9p", 0, nineP+"none"),
		mount("tmpfs", "/upper", "tmpfs", 0, "mode=755"),
	); err != nil {
		return err
	}
	return mkdirs("/upper/files", "/upper/work")
}

// mountRoot builds the root: the host's files, or the folder of them that is a
// whole root, below what is written.
func mountRoot(j job) error {
	if err := mount("overlay", "/root", "overlay", 0, "lowerdir=/lower"+j.Root+",upperdir=/upper/files,workdir=/upper/work"); err != nil {
		return err
	}
	if err := mount("tmpfs", "/root/run", "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if err := mkdirs("/root"+scratch, "/root/run/lock"); err != nil {
		return err
	}
	return mount("/scratch", "/root"+scratch, "", unix.MS_MOVE, "")
}

// bindFolders puts folders of the host into a root that is not the host's. Each is
// under an overlay of its own, so that it can be written, too.
func bindFolders(j job) error {
	if j.Root == "" {
		return nil
	}
	for i, b := range append(j.Bind, bind{j.Modules, j.Modules}) {
		upper, work := fmt.Sprintf("/upper/bind%d", i), fmt.Sprintf("/upper/work%d", i)
		if err := mkdirs("/root"+b.To, upper, work); err != nil {
			return err
		}
		if err := mount("overlay", "/root"+b.To, "overlay", 0, "lowerdir=/lower"+b.From+",upperdir="+upper+",workdir="+work); err != nil {
			return err
		}
	}
	return nil
}

// enterRoot makes /root the root of every process. The kernel's own threads
// share process 1's: its request_module finds /sbin/modprobe there.
func enterRoot() error {
	if err := mount("/dev", "/root/dev", "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	if err := unix.Chdir("/root"); err != nil {
		return err
	}
	if err := mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	return unix.Chdir("/")
}

func mountKernelFolders() error {
	if err := errors.Join(mount("proc", "/proc", "proc", 0, ""), mount("sys", "/sys", "sysfs", 0, "")); err != nil {
		return err
	}
	if err := mkdirs("/dev/pts", "/dev/shm"); err != nil {
		return err
	}
	return errors.Join(
		mount("devpts", "/dev/pts", "devpts", 0, "ptmxmode=666,mode=620"),
		mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777"),
		mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""),
		linkFdFolders(),
	)
}

// linkFdFolders makes the names a shell's <(...) and tests expect, which udev
// makes elsewhere.
func linkFdFolders() error {
	for name, to := range map[string]string{"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink("/proc/self/"+to, "/dev/"+name); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// prepare readies modules, host name and loopback for the job.
func prepare(j job) error {
	dir := filepath.Join("/lib/modules", filepath.Base(j.Modules))
	if err := mkdirs(dir); err != nil {
		return err
	}
	if err := mount(j.Modules, dir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("guest")); err != nil {
		return err
	}
	os.Setenv("PATH", systemPath)
	// libcrc32c, which nf_conntrack needs, asks for a crc32c while it is itself
	// being inserted. One that is there spares it a modprobe within a modprobe.
	// Kernels that have it built in do not know its name.
	exec.Command("modprobe", "-q", "crc32c_generic").Run()
	for _, m := range j.Load {
		if out, err := exec.Command("modprobe", strings.Split(m, " ")...).CombinedOutput(); err != nil {
			return fmt.Errorf("modprobe %s: %w: %s", m, err, out)
		}
	}
	links := "link set lo up\n"
	if j.Net {
		if out, err := exec.Command("modprobe", "virtio_net").CombinedOutput(); err != nil {
			return fmt.Errorf("modprobe virtio_net: %w: %s", err, out)
		}
		links += "link set eth0 up\naddr add 10.0.2.15/24 dev eth0\n"
	}
	ip := exec.Command("ip", "-batch", "-")
	ip.Stdin = strings.NewReader(links)
	if out, err := ip.CombinedOutput(); err != nil {
		return fmt.Errorf("set links up: %w: %s", err, out)
	}
	return nil
}

// execute runs the job and returns its exit code as a shell gives it.
func execute(j job, out *os.File) int {
	for _, v := range j.Env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			os.Setenv("PATH", path)
		}
	}
	path, err := exec.LookPath(j.Args[0])
	if err != nil {
		fmt.Fprintln(out, "guest:", err)
		return 127
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		fmt.Fprintln(out, "guest:", err)
		return 126
	}
	p, err := os.StartProcess(path, j.Args, &os.ProcAttr{
		Dir: j.Dir, Env: j.Env, Files: []*os.File{null, out, out},
	})
	if err != nil {
		fmt.Fprintln(out, "guest:", err)
		return 126
	}
	return reap(p.Pid)
}

// reap buries everybody's orphans, as process 1 must, until pid has ended.
func reap(pid int) int {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return exitNoGuest
		case ended == pid && status.Signaled():
			return 128 + int(status.Signal())
		case ended == pid:
			return status.ExitStatus()
		}
	}
}

// openPort opens the virtio port with the given name.
func openPort(name string) (*os.File, error) {
	ports, err := filepath.Glob("/sys/class/virtio-ports/*")
	if err != nil {
		return nil, err
	}
	for _, p := range ports {
		if b, err := os.ReadFile(filepath.Join(p, "name")); err == nil && strings.TrimSpace(string(b)) == name {
			fd, err := unix.Open("/dev/"+filepath.Base(p), unix.O_RDWR|unix.O_CLOEXEC, 0)
			return os.NewFile(uintptr(fd), name), err
		}
	}
	return nil, fmt.Errorf("no virtio port %q among %v", name, ports)
}

func mount(what, where, kind string, flags uintptr, options string) error {
	if err := unix.Mount(what, where, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", what, where, err)
	}
	return nil
}

func mkdirs(dirs ...string) error {
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	return nil
}
