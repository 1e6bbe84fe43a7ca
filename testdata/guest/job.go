package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// scratch is where the guest sees the one host folder it can write to. In it:
// job.json for the guest; up, exit and out/ from it.
const scratch = "/run/guest"

// A job is what the host asks of the guest.
type job struct {
	Args    []string // the command
	Env     []string
	Dir     string   // where it runs
	Modules string   // lib/modules/RELEASE, a host path
	Load    []string // modules to load first
	Net     bool     // eth0 is there, to be given the address that QEMU expects

	Root    string // a host path; "" is the host's own files
	Systemd bool   // the root's systemd is process 1
	Bind    []bind // with a root: host folders that the job finds there
	Keep    bool   // with systemd: what the guest has written is wanted when it ends
}

// A bind is a host folder and where the job finds it.
type bind struct{ From, To string }

func (j job) write(dir string) error {
	b, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "job.json"), b, 0o644)
}

func readJob(dir string) (job, error) {
	var j job
	b, err := os.ReadFile(filepath.Join(dir, "job.json"))
	if err != nil {
		return j, err
	}
	return j, json.Unmarshal(b, &j)
}

const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// withSystem adds the folders root finds its tools in to a user's search path.
func withSystem(path string) string {
	dirs := filepath.SplitList(path)
	for _, d := range filepath.SplitList(systemPath) {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return strings.Join(dirs, ":")
}

// environment is this process's, marked as a guest's, with files for the host
// to go to out. A name appears once: which of two counts is not defined.
func environment(out string) []string {
	path := withSystem(os.Getenv("PATH"))
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "PATH" || strings.HasPrefix(name, "SVCPROXY_GUEST")
	})
	return append(env, "PATH="+path, "SVCPROXY_GUEST=1", "SVCPROXY_GUEST_OUT="+out)
}

// A fetch is a file or folder below out/ that belongs elsewhere on the host.
type fetch struct{ from, to string }

// fileFlags are the flags of a test binary that name a file it writes.
var fileFlags = map[string]bool{
	"coverprofile": true, "cpuprofile": true, "memprofile": true, "blockprofile": true,
	"mutexprofile": true, "trace": true, "testlogfile": true, "gocoverdir": true,
}

// redirect makes a test binary write its files below out, and says where each
// belongs. It also returns the binary's own time limit; zero when it has none.
func redirect(args []string, dir, out string) (redirected []string, fetches []fetch, limit time.Duration) {
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		name, isTest := strings.CutPrefix("-"+strings.TrimLeft(name, "-"), "-test.")
		switch {
		case !ok || !isTest:
		case name == "outputdir":
			dir = filepath.Join(value)
			continue
		case name == "timeout":
			limit, _ = time.ParseDuration(value)
		case fileFlags[name]:
			fetches = append(fetches, fetch{name, value})
			arg = "-test." + name + "=" + filepath.Join(out, name)
		}
		redirected = append(redirected, arg)
	}
	for i, f := range fetches {
		if !filepath.IsAbs(f.to) {
			fetches[i].to = filepath.Join(dir, f.to)
		}
	}
	return redirected, fetches, limit
}

// carry copies what the guest left below out to where it belongs. What is not
// there was not written.
func carry(out string, fetches []fetch) error {
	for _, f := range fetches {
		from := filepath.Join(out, f.from)
		st, err := os.Stat(from)
		if os.IsNotExist(err) {
			continue
		}
		if err == nil && st.IsDir() {
			err = copyFolder(from, f.to)
		} else if err == nil {
			err = copyFile(from, f.to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, below), 0o755)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		return copyFile(path, filepath.Join(to, below))
	})
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
