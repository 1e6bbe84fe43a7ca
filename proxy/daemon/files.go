package daemon

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/sources/dns"
	"github.com/svcproxy/svcproxy/sources/file"
)

// stateFiles are svcproxy's files in stateDir, besides the copies in last-good. TestTamperedState in
// testdata/traffic has them, too, and TestPurge there finds one that is missing here.
var stateFiles = []string{
	"names", "mode", "virtuals", // of package kernel/host
	"sysctls.json",   // of kernel/sysctl
	"incumbents",     // of earlier runs
	"overrides.json", // of proxy/health/checker
	"agents.json",    // likewise
	"since.json",     // likewise
	dns.FileName,     // of sources/dns
	events.FileName,  // of proxy/events
	nodeDrainFile,    // of this package
}

// RemoveFiles removes svcproxy's files from stateDir and runtimeDir, and nothing else: a directory of the
// operator may have more. The two directories stay, as a rule only root may remove them. So does
// announce.file, since keepalived takes a missing file for a good node.
func RemoveFiles(c config.Config) error {
	kept := config.LastGood(c.StateDir)
	services := file.LastGood{Dir: filepath.Join(kept.Dir, "services")}
	return errors.Join(
		services.Clear(), kept.Clear(), // in this order: the first is a directory in the second
		storeIn(c.StateDir).Clear(),
		removeFiles(c.StateDir, stateFiles...),
		removeFiles(c.RuntimeDir, startsFile, filepath.Base(Socket(c.RuntimeDir))),
	)
}

// removeFiles removes files from a directory, and what statefile has left of each: one that was set aside,
// and one that a crash left unfinished.
func removeFiles(path string, names ...string) error {
	d, err := statefile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	for _, name := range names {
		err = errors.Join(err, d.Remove(name), d.Remove(name+".unread"), d.Remove(name+".new"))
	}
	return err
}
