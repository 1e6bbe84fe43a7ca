package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A guest with --systemd boots a root of its own (see root.go) as a machine
// does: process 1 is that root's systemd, and the job is the last unit it
// starts. The host's files are not at their places; those that the job needs are
// bound there, and all are below hostFiles.
const (
	hostFiles  = "/run/host"
	systemSelf = "/run/guest-init" // this program
	systemCode = "/run/guest-code" // the job's exit code, while systemd shuts down
	upperFiles = "/run/upper"      // what this guest has written, the overlay's
	keptFile   = "kept.tar"        // the same for another guest, in scratch
)

const jobUnit = `[Unit]
Description=What the host asks of this guest
After=multi-user.target
[Service]
ExecStart=` + systemSelf + ` systemjob
KillMode=process
TimeoutStopSec=infinity
TasksMax=infinity
[Install]
WantedBy=multi-user.target
`

// endUnit is the first that a boot starts, and so the last that a shutdown
// stops, but for the journal.
const endUnit = `[Unit]
Description=What this guest leaves to the host
DefaultDependencies=no
RequiresMountsFor=` + scratch + " " + upperFiles + `
After=systemd-journal-flush.service
Before=sysinit.target shutdown.target
Conflicts=shutdown.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStop=` + systemSelf + ` systemend
TimeoutStopSec=infinity
[Install]
WantedBy=sysinit.target
`

// restore puts back what another guest has written, before the overlay is there
// to hide it. The tar is the root's: there is none in an initramfs.
func restore(j job) error {
	root := "/lower" + j.Root
	if _, err := os.Stat("/scratch/" + keptFile); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := errors.Join(
		mount("/upper", root+"/mnt", "", unix.MS_BIND, ""),
		mount("/scratch", root+"/media", "", unix.MS_BIND, ""),
		mount("proc", root+"/proc", "proc", 0, ""), // chmod looks there; the host's is of no use
	); err != nil {
		return err
	}
	cmd := exec.Command("/bin/tar", "-C", "/mnt/files", "--xattrs", "--xattrs-include=*", "-xpf", "/media/"+keptFile)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	cmd.Env = []string{"PATH=" + systemPath}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("restore %s: %w: %s", keptFile, err, out)
	}
	return errors.Join(unix.Unmount(root+"/mnt", 0), unix.Unmount(root+"/media", 0), unix.Unmount(root+"/proc", 0))
}

// furnish puts into the new root what the job's units need; before enterRoot.
func furnish(j job) error {
	self, err := os.ReadFile("/init")
	if err != nil {
		return err
	}
	modules := "/root/lib/modules/" + filepath.Base(j.Modules)
	if err := mkdirs("/root"+hostFiles, "/root"+upperFiles, modules); err != nil {
		return err
	}
	return errors.Join(
		mount("/lower", "/root"+hostFiles, "", unix.MS_BIND, ""),
		mount("/upper/files", "/root"+upperFiles, "", unix.MS_BIND, ""),
		mount("/lower"+j.Modules, modules, "", unix.MS_BIND, ""),
		os.WriteFile("/root"+systemSelf, self, 0o755),
		addUnit("guest-job.service", jobUnit, "multi-user.target"),
		addUnit("guest-end.service", endUnit, "sysinit.target"),
	)
}

// addUnit adds a unit that is started at boot. An earlier guest may have left it.
func addUnit(name, text, wantedBy string) error {
	const units = "/root/etc/systemd/system"
	wants := filepath.Join(units, wantedBy+".wants")
	if err := errors.Join(mkdirs(wants), os.WriteFile(filepath.Join(units, name), []byte(text), 0o644)); err != nil {
		return err
	}
	if err := os.Symlink("../"+name, filepath.Join(wants, name)); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// becomeSystemd ends this program's time as process 1.
func becomeSystemd() error {
	const init = "/sbin/init"
	return fmt.Errorf("become %s: %w", init, syscall.Exec(init, []string{init}, []string{"PATH=" + systemPath, "TERM=dumb"}))
}

// systemJobCommand is the job's unit: it runs the job and ends the machine as
// beInit does, unless the job has had systemd shut it down.
func systemJobCommand(context.Context, []string) error {
	stopping, err := serveSystemJob()
	if err != nil {
		onConsole(err)
	} else if stopping {
		return nil // systemEndCommand does the rest
	}
	unix.Sync()
	return unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

// serveSystemJob runs the job to its end and reports whether systemd is shutting
// the machine down.
func serveSystemJob() (stopping bool, err error) {
	j, err := readJob(scratch)
	if err != nil {
		return false, err
	}
	for _, b := range j.Bind {
		if err := mkdirs(b.To); err != nil {
			return false, err
		}
		if err := mount(hostFiles+b.From, b.To, "", unix.MS_BIND, ""); err != nil {
			return false, err
		}
	}
	out, err := openPort("stdio")
	if err != nil {
		return false, err
	}
	if err := os.WriteFile(filepath.Join(scratch, "up"), nil, 0o644); err != nil {
		return false, err
	}
	code := strconv.Itoa(execute(j, out))
	out.Close()
	// Its exit code says that systemd is not running as it should.
	state, _ := exec.Command("systemctl", "is-system-running").Output()
	if strings.TrimSpace(string(state)) == "stopping" {
		return true, os.WriteFile(systemCode, []byte(code), 0o644)
	}
	return false, leave(j, code)
}

// systemEndCommand is the last unit that a shutdown stops. The job's exit code
// gets to the host only here: a shutdown that hangs is no pass.
func systemEndCommand(context.Context, []string) error {
	err := serveSystemEnd()
	if err != nil {
		onConsole(err)
	}
	return err
}

func serveSystemEnd() error {
	code, err := os.ReadFile(systemCode)
	if err != nil {
		return fmt.Errorf("shut down before the job has ended: %w", err)
	}
	j, err := readJob(scratch)
	if err != nil {
		return err
	}
	if out, err := exec.Command("journalctl", "--sync").CombinedOutput(); err != nil {
		return fmt.Errorf("write the journal: %w: %s", err, out)
	}
	return leave(j, string(code))
}

// onConsole says what went wrong where the host looks when there is no exit code.
func onConsole(err error) {
	fmt.Println("guest: job:", err)
	if console, cerr := os.OpenFile("/dev/console", os.O_WRONLY, 0); cerr == nil {
		fmt.Fprintln(console, "guest: job:", err)
		console.Close()
	}
}

// leave gives the host what this guest has written, if it is wanted, and then
// the job's exit code. Nothing is stopped for it: unless all has been, it is as
// after a loss of power.
func leave(j job, code string) error {
	if err := keep(j); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(scratch, "exit"), []byte(code), 0o644)
}

func keep(j job) error {
	if !j.Keep {
		return nil
	}
	unix.Sync()
	cmd := exec.Command("tar", "-C", upperFiles, "--xattrs", "--xattrs-include=*", "-cf", filepath.Join(scratch, "out", keptFile), ".")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil // a file changed while it was read: a log
	}
	if err != nil {
		return fmt.Errorf("keep what was written: %w: %s", err, out)
	}
	return nil
}
