package commands

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/daemon"
	"github.com/svcproxy/svcproxy/proxy/doctor"
	"github.com/svcproxy/svcproxy/sources"
)

// examination reads the facts for doctor.
type examination struct {
	offline // its warnings become notes
	probe   bool
	setup   daemon.Setup
	client  control.Client
	f       doctor.Facts
}

// counterWindow is how long counters of dropped packets are watched.
const counterWindow = time.Second

func newExamination(e *Env) *examination {
	return &examination{offline: offline{local: local{Env: e, collects: true}}}
}

// facts reads everything once. What cannot be read is among the facts.
func (x *examination) facts(ctx context.Context) *doctor.Facts {
	var err error
	x.setup, err = x.load()
	if err == nil {
		err = x.setup.Supported()
	}
	c := x.setup.Config
	x.client = control.Client{Socket: daemon.Socket(c.RuntimeDir)}
	surroundings := make(chan machine.Facts, 1)
	go func() {
		surroundings <- machine.Read(machine.Options{
			Sysctls: doctor.Sysctls(), Folders: folders(c.StateDir, c.RuntimeDir), Unit: "svcproxy.service",
			Window: counterWindow,
		})
	}()
	x.f.UserID = -1
	x.ask(ctx)
	if err != nil {
		x.refused(err)
	} else {
		x.serving(ctx)
	}
	x.f.Machine = <-surroundings
	if x.f.Status == nil {
		x.f.Warnings = x.warned // else the status has them
	}
	return &x.f
}

// folders are those that are named.
func folders(paths ...string) (list []string) {
	for _, p := range paths {
		if p != "" {
			list = append(list, p)
		}
	}
	return list
}

// ask asks the running svcproxy.
func (x *examination) ask(ctx context.Context) {
	st, err := x.client.Health(ctx, nil)
	switch {
	case err == nil:
		x.f.Status, x.f.Mode, x.f.Configured = &st, st.Daemon.Mode, true
		x.setup.Config.UseMode(st.Daemon.Mode)
		if uid, known := machine.UserOf(st.Daemon.PID); known {
			x.f.UserID = uid
		}
	case cli.Code(err) == cli.NoDaemon:
		x.f.NoAnswer = strings.Join(cli.Lines(err), "; ")
	default:
		x.lacks("what svcproxy itself knows", err, "run as root, or as a member of the group svcproxy")
	}
}

// lacks notes that something cannot be checked.
func (x *examination) lacks(what string, err error, right string) {
	why := strings.Join(cli.Lines(err), "; ")
	if cli.Code(err) == cli.Permission || errors.Is(err, os.ErrPermission) {
		why += ": " + right
	}
	x.f.Unchecked = append(x.f.Unchecked, doctor.Unchecked{What: what, Why: why})
}

// refused notes that the configuration or the services are not valid.
func (x *examination) refused(err error) {
	if os.Geteuid() != 0 && strings.Contains(err.Error(), os.ErrPermission.Error()) {
		x.lacks("the configuration and the services", os.ErrPermission, "run as root, or as a member of the group svcproxy")
		return
	}
	x.f.Configured, x.f.Refused = true, cli.Lines(err)
	var missing *kernel.MissingError
	if errors.As(err, &missing) {
		x.f.Hint = missing.Hint
	}
}

// serving reads what is to be served, and how the kernel does that.
func (x *examination) serving(ctx context.Context) {
	x.f.Mode = cmp.Or(x.f.Mode, x.setup.Mode())
	if x.f.Status == nil && !x.hasServices(ctx) {
		return // nothing of the kernel is read, which might load modules
	}
	x.f.Configured = true
	have, err := x.kernel(ctx)
	if err != nil {
		x.f.Missing = kernel.Missing(err)
		if len(x.f.Missing) == 0 {
			x.lacks("the kernel's virtual servers, rules and sets", err,
				"run as root, or with CAP_NET_ADMIN and CAP_NET_RAW; or start svcproxy, which reads them for members of the "+
					"group svcproxy")
		}
	} else {
		x.f.Kernel = &have
		x.setup.AsInKernel(&have)
		x.firewall(ctx)
	}
	table, err := x.table(ctx, &x.setup, &have)
	var rejected *sources.RejectedError
	switch {
	case err == nil:
		x.examine(ctx, table)
	case x.f.Status == nil || errors.As(err, &rejected):
		x.refused(err)
	default:
		x.lacks("the services", err, "run as root")
	}
	x.unserved(ctx)
}

// hasServices reports whether there may be something to serve. A node without any file is not
// configured, and one with files that are empty or only have comments is not yet.
func (x *examination) hasServices(ctx context.Context) bool {
	switch {
	case x.setup.Static.Services.Len() > 0 || x.setup.Config.APIServer.Enabled:
		return true
	case x.setup.File == "" && x.edited().IsZero():
		return false
	}
	table, err := x.serviceFiles(ctx, x.setup.Files(), x.setup.Facts(kernel.Node{}))
	return err != nil && !errors.Is(err, os.ErrNotExist) || table.Services.Len() > 0
}

// kernel reads the kernel, or lets the daemon do that.
func (x *examination) kernel(ctx context.Context) (kernel.Observed, error) {
	have, err := x.observe(ctx, &x.setup)
	x.f.Mode, x.f.Native = cmp.Or(statusMode(&x.f), x.setup.Mode()), x.setup.Native()
	if err == nil || cli.Code(err) != cli.Permission {
		return have, err
	}
	text, asked := x.client.Kernel(ctx)
	if asked != nil {
		return have, err // which right is missing says more
	}
	if have, err = kernel.ParseObserved(text); err != nil {
		return have, err
	}
	have.Names = x.setup.Config.Names()
	return have, nil
}

// firewall reads all rules of other programs, of which a reading of the kernel has some.
func (x *examination) firewall(ctx context.Context) {
	all, err := host.Firewall(ctx, x.f.Kernel.Names)
	var missing *kernel.MissingError
	switch {
	case err == nil:
		x.f.Kernel.Firewall = all
	case !errors.As(err, &missing): // without iptables a reading has what there is
		x.lacks("rules of other programs", err, "run as root")
	}
}

func statusMode(f *doctor.Facts) string {
	if f.Status == nil {
		return ""
	}
	return f.Status.Daemon.Mode
}

// edited is when the last of the service files was written.
func (x *examination) edited() (last time.Time) {
	for _, pattern := range x.setup.ServiceFiles() {
		paths, _ := filepath.Glob(pattern)
		for _, p := range paths {
			if info, err := os.Stat(p); err == nil && info.ModTime().After(last) {
				last = info.ModTime()
			}
		}
	}
	return last
}
