package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	upperFiles = "/run/upper"      // what this guest has written, the overlay's
	keptFile   = "kept.tar"        // the same for another guest, in scratch
)

const jobUnit = `[Unit]
Description=What the host asks of this guest
After=multi-user.target
[Service]
ExecStart=` + systemSelf + ` systemjob
KillMode=process
TasksMax=infinity
[Install]
WantedBy=multi-user.target
`

// restore puts back what another guest has written, before the overlay is there
// to hide it. The tar is the host's: there is none in an initramfs.
func restore() error {
	if _, err := os.Stat("/scratch/" + keptFile); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := errors.Join(
		mount("/upper", "/lower/mnt", "", unix.MS_BIND, ""),
		mount("/scratch", "/lower/media", "", unix.MS_BIND, ""),
		mount("proc", "/lower/proc", "proc", 0, ""), // chmod looks there; the host's is of no use
	); err != nil {
		return err
	}
	cmd := exec.Command("/bin/tar", "-C", "/mnt/files", "--xattrs", "--xattrs-include=*", "-xpf", "/media/"+keptFile)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: "/lower"}
	cmd.Env = []string{"PATH=" + systemPath}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("restore %s: %w: %s", keptFile, err, out)
	}
	return errors.Join(unix.Unmount("/lower/mnt", 0), unix.Unmount("/lower/media", 0), unix.Unmount("/lower/proc", 0))
}

// furnish puts into the new root what the job's unit needs; before enterRoot.
func furnish(j job) error {
	self, err := os.ReadFile("/init")
	if err != nil {
		return err
	}
	const units = "/root/etc/systemd/system"
	modules := "/root/lib/modules/" + filepath.Base(j.Modules)
	if err := mkdirs("/root"+hostFiles, "/root"+upperFiles, units+"/multi-user.target.wants", modules); err != nil {
		return err
	}
	if err := errors.Join(
		mount("/lower", "/root"+hostFiles, "", unix.MS_BIND, ""),
		mount("/upper/files", "/root"+upperFiles, "", unix.MS_BIND, ""),
		mount("/lower"+j.Modules, modules, "", unix.MS_BIND, ""),
		os.WriteFile("/root"+systemSelf, self, 0o755),
		os.WriteFile(units+"/guest-job.service", []byte(jobUnit), 0o644),
	); err != nil {
		return err
	}
	err = os.Symlink("../guest-job.service", units+"/multi-user.target.wants/guest-job.service")
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// becomeSystemd ends this program's time as process 1.
func becomeSystemd() error {
	const init = "/sbin/init"
	return fmt.Errorf("become %s: %w", init, syscall.Exec(init, []string{init}, []string{"PATH=" + systemPath, "TERM=dumb"}))
}

// systemJobCommand is the job's unit: it runs the job and ends the machine as
// beInit does.
func systemJobCommand(context.Context, []string) error {
	if err := serveSystemJob(); err != nil {
		fmt.Println("guest: job:", err)
		if console, cerr := os.OpenFile("/dev/console", os.O_WRONLY, 0); cerr == nil {
			fmt.Fprintln(console, "guest: job:", err)
		}
	}
	unix.Sync()
	return unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

func serveSystemJob() error {
	j, err := readJob(scratch)
	if err != nil {
		return err
	}
	for _, path := range j.Bind {
		if err := mkdirs(path); err != nil {
			return err
		}
		if err := mount(hostFiles+path, path, "", unix.MS_BIND, ""); err != nil {
			return err
		}
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
	if err := keep(j); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(scratch, "exit"), []byte(strconv.Itoa(code)), 0o644)
}

// keep leaves what this guest has written for the next one. It is as after a
// loss of power: nothing is stopped for it.
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
