package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

// configuration reports what is wrong with the files.
func configuration(f *Facts) []Finding {
	if len(f.Refused) == 0 {
		return nil
	}
	why := "svcproxy would not start with it"
	if f.Status != nil {
		why = "svcproxy goes on with the last good content, and takes no change in"
	}
	mend := f.Hint
	if mend == "" {
		mend = "correct these lines; svcproxy check says when none is left"
	}
	return one(why, mend, "%s", few(f.Refused))
}

// unit reports a unit that is masked or that no boot starts.
func unit(f *Facts) []Finding {
	u := f.Machine.Unit
	switch {
	case f.Configured && u.Masked != "":
		mend := "systemctl unmask svcproxy"
		if strings.HasPrefix(u.Masked, "/run/") {
			mend = "systemctl unmask --runtime svcproxy"
		}
		return one("systemd refuses to start it, also after a failure or at boot", mend,
			"the unit svcproxy.service is masked by %s", u.Masked)
	case f.Configured && f.Status != nil && u.Systemd && u.Installed && !u.Enabled:
		return one("after a boot this node serves nothing", "systemctl enable svcproxy",
			"svcproxy runs, but no boot starts its unit")
	}
	return nil
}

// running reports that svcproxy does not run or hangs, though there is something to serve. A restart
// mends both; systemctl start does nothing to a process that hangs.
func running(f *Facts) []Finding {
	if f.NoAnswer == "" || !f.Configured {
		return nil
	}
	mend := "svcproxy run"
	if f.Machine.Unit.Installed {
		mend = "systemctl restart svcproxy"
	}
	why := "the kernel goes on with what it has, but changes, health checks and repairs wait"
	if f.Mode == sources.ModeUserspace {
		why = "in mode userspace nothing is served without it"
	}
	return one(why, mend, "%s", f.NoAnswer)
}

// The least that the disk of a folder should have.
const (
	leastBytes = 4 << 20
	leastFiles = 32
)

func disk(f *Facts) (list []Finding) {
	const why = "svcproxy could not write down orders, old values of kernel parameters and the last good files"
	for _, d := range f.Machine.Folders {
		switch {
		case !d.Exists:
		case d.ReadOnly:
			list = append(list, one(why, "mount -o remount,rw the file system of "+d.Path, "the file system of %s is read-only",
				d.Path)...)
		case d.Bytes > 0 && d.BytesFree < min(leastBytes, d.Bytes/50):
			list = append(list, one(why, "df -h "+d.Path+"; then remove files", "the disk of %s is full: %d of %d kB are free",
				d.Path, d.BytesFree>>10, d.Bytes>>10)...)
		case d.Inodes > 0 && d.NodeFree < min(leastFiles, d.Inodes/50):
			list = append(list, one(why, "df -i "+d.Path+"; then remove files", "the file system of %s has no room for files: "+
				"%d of %d are free", d.Path, d.NodeFree, d.Inodes)...)
		}
	}
	return list
}

// folders reports folders that svcproxy cannot use, or that any user may write.
func folders(f *Facts) (list []Finding) {
	for _, d := range f.Machine.Folders {
		perm := d.Mode.Perm()
		owner := d.UID == f.UserID
		switch {
		case d.Hidden:
		case d.Err != "":
			list = append(list, one("svcproxy keeps its state there",
				"make it a folder that svcproxy may write; ls -ld "+d.Path+" shows what it is", "folder %s: %s", d.Path, d.Err)...)
		case !d.Exists && f.Status != nil:
			list = append(list, one("svcproxy runs and cannot keep its state there", "systemctl restart svcproxy",
				"folder %s is gone", d.Path)...)
		case !d.Exists:
		case perm&0o002 != 0:
			list = append(list, one("any user may replace what svcproxy reads there", "chmod o-w "+d.Path,
				"every user may write %s (mode %04o)", d.Path, perm)...)
		case f.UserID > 0 && !(owner && perm&0o300 == 0o300) && perm&0o030 != 0o030:
			list = append(list, one("svcproxy cannot keep its state",
				fmt.Sprintf("chown %d %s && chmod u+rwx %s", f.UserID, d.Path, d.Path),
				"svcproxy runs as user %d and may not write %s (mode %04o of user %d)", f.UserID, d.Path, perm, d.UID)...)
		}
	}
	return list
}

// ahead is how far in the future a file may be, because of a file server with its own clock.
const ahead = 2 * time.Minute

func clock(f *Facts) []Finding {
	const why = "certificates look valid or expired when they are not, orders end at the wrong time, and logs mislead"
	for _, d := range f.Machine.Folders {
		if d.Newest.After(f.Machine.Now.Add(ahead)) {
			return one(why, "timedatectl; chronyc makestep", "the clock was set back: %s was written at %s, and it is %s now",
				d.Changed, d.Newest.UTC().Format(time.RFC3339), f.Machine.Now.UTC().Format(time.RFC3339))
		}
	}
	c := f.Machine.Clock
	if c.Daemon != "" && !c.Synced && f.Status != nil && f.Machine.Now.Sub(f.Status.Daemon.Started) > time.Hour {
		return one(why, "give "+c.Daemon+" a server that answers; timedatectl timesync-status or chronyc sources "+
			"shows those it has", "%s runs, but the clock is not synchronised", c.Daemon)
	}
	return nil
}

// files reports content of files that is not served, though it was written long enough ago.
func files(f *Facts) (list []Finding) {
	if len(f.Unserved) > 0 {
		list = one("what is served is older than what the files say", "svcproxy reload --wait",
			"the files differ from what is served: %s", few(f.Unserved))
	}
	if f.Status == nil {
		return list
	}
	if changes := f.Status.Daemon.Config.Restart; len(changes) > 0 {
		list = append(list, one("svcproxy still runs with the old values", "systemctl restart svcproxy",
			"svcproxy.toml has changes that need a restart: %s", few(changes))...)
	}
	for _, s := range f.Status.Sources {
		for _, old := range s.Stale {
			list = append(list, one("what is served is older than what the file says",
				"correct the file; svcproxy check names the lines", "%s is refused; its content of %s is served",
				old.File, old.Good.Format(time.RFC3339))...)
		}
	}
	return list
}

// soon is when a certificate should have been renewed.
const soon = 7

func certificates(f *Facts) []Finding {
	if f.Status == nil {
		return nil
	}
	var expired, expiring []string
	for i := range f.Status.Services {
		for _, e := range f.Status.Services[i].Endpoints {
			if e.Health == nil || e.Health.Days == nil {
				continue
			}
			line := fmt.Sprintf("%s of %s (%s)", e.Address, f.Status.Services[i].Name,
				e.Health.Expires.UTC().Format(time.DateOnly))
			switch {
			case e.Health.Expires.Before(f.Machine.Now):
				expired = append(expired, line)
			case *e.Health.Days < soon:
				expiring = append(expiring, line)
			}
		}
	}
	var list []Finding
	if len(expired) > 0 {
		list = one("clients refuse it, and so does a health check with verify = true", "renew the certificate on the backend",
			"the certificate has expired: %s", few(sortedUnique(expired)))
	}
	if len(expiring) > 0 {
		list = append(list, one("then clients refuse it", "renew the certificate on the backend",
			"the certificate expires within %d days: %s", soon, few(sortedUnique(expiring)))...)
	}
	return list
}

// problems are those that the running svcproxy knows.
func problems(f *Facts) (list []Finding) {
	if f.Status == nil {
		return nil
	}
	for _, c := range f.Status.Conditions {
		if c.Kind == condition.ConntrackFull {
			continue // a check of its own has it
		}
		text := c.String()
		if c.More > 0 {
			text += fmt.Sprintf("; and %d more (%s)", c.More, c.Kind)
		}
		list = append(list, one(c.Kind.Meaning(), c.Hint, "%s", text)...)
	}
	said, mends := status.ConditionLines(f.Status.Conditions), f.Status.Mends()
	for _, p := range f.Status.Problems {
		mend := cmp.Or(mends[p], "wait until it is over")
		switch {
		case slices.Contains(said, p):
			continue // above
		case slices.ContainsFunc(f.Refused, func(r string) bool { return strings.Contains(p, r) }):
			continue // a finding has it already
		case p == status.Barred && f.Kernel != nil && f.Want != nil:
			continue // the check of firewalls has looked itself, and later
		case p == status.Barred:
			p += ": " + few(f.Status.Warnings[:f.Status.Totals.Barred])
		}
		list = append(list, one("svcproxy is degraded", mend, "%s", p)...)
	}
	return list
}

// running programs by name.
func (f *Facts) programs(name string) (list []machine.Process) {
	for _, p := range f.Machine.Processes {
		if p.Name == name {
			list = append(list, p)
		}
	}
	return list
}
