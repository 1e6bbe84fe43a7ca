package daemon

import (
	"fmt"
	"os"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/metrics"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// consoleOptions gives the console what it shows of this daemon.
func (d *daemon) consoleOptions(files namedFiles, counters *host.Counters) consoleOptions {
	o := consoleOptions{
		proxy: d.proxy, current: d.current, log: d.log.Logger, about: d.about(), counters: counters, files: files,
		work: d.work, warnings: d.warnings, table: d.table, eligible: d.eligible, checker: d.checker, drained: d.drained,
		announcer: d.announcer, explain: d.explain,
		conditions: &d.conditions, keeper: d.keeper,
	}
	o.badAnswers = files.dnsNames.Bad
	if !d.noTables {
		o.tables = storeIn(d.setup().Config.StateDir)
	}
	o.kernelText, o.stateDir = d.kernelText, d.setup().Config.StateDir
	if d.listeners != nil {
		o.relayed = d.listeners.text
	}
	return o
}

// about describes the process: it does not change while svcproxy runs.
func (d *daemon) about() status.Daemon {
	s := d.setup()
	rules := ""
	if d.kernel.Native() {
		rules = config.BackendNFTables
	}
	return status.Daemon{
		Rules: rules, Version: d.version, Node: s.Node(), PID: os.Getpid(), Started: time.Now(), IPTables: d.kernel.Tools(),
		Mode: d.mode.Name(), ModeReason: d.modeReason,
		ConfiguredMode: s.Config.Mode, Fallbacks: d.fallbacks, Files: s.Config.File.Paths,
	}
}

// warnings are problems that do not fail a sync.
func (d *daemon) warnings() []string {
	// This may walk all endpoints, so not after each change.
	if s := d.proxy.Snapshot(); s != nil && s.Report.Checked {
		config := d.setup().forMode()
		d.doubts = mode.Bridged(s.Table, s.Node, config)
		if s.Frontends != nil {
			d.doubts = append(d.doubts, d.mode.Doubts(s.Frontends, config)...)
		}
	}
	var lines []string
	if err := d.kernel.Warning(); err != nil {
		lines = append(lines, fmt.Sprintf("cleanup may not find it later: %v", err))
	}
	if err := d.checker.Unread(); err != nil {
		lines = append(lines, err.Error())
	}
	if err := d.drained.Unread(); err != nil {
		lines = append(lines, err.Error())
	}
	return append(lines, d.doubts...)
}

// work counts what the kernel was asked for, in the types of metrics.
func (d *daemon) work() metrics.Work {
	stats := d.kernel.Stats()
	tracked := func(t host.Tracked) metrics.Tracked { return metrics.Tracked(t) }
	w := metrics.Work{
		IPTablesReads: stats.Readers, IPTablesWrites: stats.Writers,
		Tracked: map[kernel.Family]metrics.Tracked{kernel.IPv4: tracked(stats.Tracked4),
			kernel.IPv6: tracked(stats.Tracked6)},
	}
	for name, n := range stats.Netlink.All() {
		w.Sockets = append(w.Sockets, metrics.Socket{Name: name, Messages: n.Messages, Queries: n.Queries,
			Syscalls: n.Sends + n.Receives})
	}
	return w
}
